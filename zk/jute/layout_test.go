package jute

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// layouts holds every record with its bytes, as ZooKeeper's record definitions lay them out.
var layouts = []struct {
	record Record
	hex    string
}{
	{&ACL{PermRead, ID{b("ip"), b("::1")}}, "00000001 00000002 6970 00000003 3a3a31"},
	{&AddWatchRequest{b("/a"), AddWatchPersistentRecursive}, "00000002 2f61 00000001"},
	{&AuthPacket{7, b("ip"), b("x")}, "00000007 00000002 6970 00000001 78"},
	{&CheckVersionRequest{b("/a"), 3}, "00000002 2f61 00000003"},
	{&CheckWatchesRequest{b("/a"), WatcherAny}, "00000002 2f61 00000003"},
	{&ClientInfo{b("digest"), b("u")}, "00000006 646967657374 00000001 75"},
	{&ConnectRequest{1, 2, 3, 4, b("pw"), true, true}, "00000001 0000000000000002 00000003 0000000000000004 00000002 7077 01"},
	{&ConnectResponse{1, 3, 4, b("pw"), true, true}, "00000001 00000003 0000000000000004 00000002 7077 01"},
	{&Create2Response{b("/a"), Stat{Czxid: 1, Pzxid: 2}}, "00000002 2f61 0000000000000001 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000002"},
	{&CreateRequest{b("/a"), b("x"), []ACL{{PermAll, ID{b("world"), b("anyone")}}}, EphemeralSequential}, "00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000003"},
	{&CreateResponse{b("/a")}, "00000002 2f61"},
	{&CreateTTLRequest{CreateRequest{b("/a"), nil, []ACL{}, PersistentWithTTL}, 9}, "00000002 2f61 ffffffff 00000000 00000005 0000000000000009"},
	{&DeleteRequest{b("/a"), -1}, "00000002 2f61 ffffffff"},
	{&ErrorResponse{NoNode}, "ffffff9b"},
	{&ExistsRequest{b("/a"), true}, "00000002 2f61 01"},
	{&ExistsResponse{Stat{Czxid: 1, Pzxid: 2}}, "0000000000000001 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000002"},
	{&GetACLRequest{b("/a")}, "00000002 2f61"},
	{&GetACLResponse{[]ACL{{PermRead, ID{b("ip"), nil}}}, Stat{Czxid: 2, Pzxid: 3}}, "00000001 00000001 00000002 6970 ffffffff 0000000000000002 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000003"},
	{&GetAllChildrenNumberRequest{b("/a")}, "00000002 2f61"},
	{&GetAllChildrenNumberResponse{6}, "00000006"},
	{&GetChildren2Response{[][]byte{b("a"), b("b")}, Stat{Czxid: 3, Pzxid: 4}}, "00000002 00000001 61 00000001 62 0000000000000003 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000004"},
	{&GetChildrenRequest{b("/a"), true}, "00000002 2f61 01"},
	{&GetChildrenResponse{[][]byte{b("a"), nil, {}}}, "00000003 00000001 61 ffffffff 00000000"},
	{&GetDataRequest{b("/a"), false}, "00000002 2f61 00"},
	{&GetDataResponse{b("x"), Stat{Czxid: 4, Pzxid: 5}}, "00000001 78 0000000000000004 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000005"},
	{&GetEphemeralsRequest{b("/a")}, "00000002 2f61"},
	{&GetEphemeralsResponse{[][]byte{b("/a")}}, "00000001 00000002 2f61"},
	{&SASLToken{b("t")}, "00000001 74"},
	{&ID{b("ip"), b("::1")}, "00000002 6970 00000003 3a3a31"},
	{&MultiHeader{OpDelete, true, NoAuth}, "00000002 01 ffffff9a"},
	{&ReconfigRequest{b("j"), b("l"), b("n"), 5}, "00000001 6a 00000001 6c 00000001 6e 0000000000000005"},
	{&RemoveWatchesRequest{b("/a"), WatcherPersistentRecursive}, "00000002 2f61 00000005"},
	{&ReplyHeader{1, 2, NoNode}, "00000001 0000000000000002 ffffff9b"},
	{&RequestHeader{1, OpDelete}, "00000001 00000002"},
	{&SetACLRequest{b("/a"), []ACL{}, 3}, "00000002 2f61 00000000 00000003"},
	{&SetACLResponse{Stat{Czxid: 5, Pzxid: 6}}, "0000000000000005 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000006"},
	{&SetDataRequest{b("/a"), b("x"), 3}, "00000002 2f61 00000001 78 00000003"},
	{&SetDataResponse{Stat{Czxid: 6, Pzxid: 7}}, "0000000000000006 0000000000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000007"},
	{&SASLToken{b("t")}, "00000001 74"},
	{&SetWatches{1, [][]byte{b("d")}, [][]byte{b("e")}, [][]byte{b("c")}}, "0000000000000001 00000001 00000001 64 00000001 00000001 65 00000001 00000001 63"},
	{&SetWatches2{1, [][]byte{b("d")}, nil, [][]byte{b("c")}, [][]byte{b("p")}, [][]byte{b("r")}}, "0000000000000001 00000001 00000001 64 ffffffff 00000001 00000001 63 00000001 00000001 70 00000001 00000001 72"},
	{&Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006 00000007 0000000000000008 00000009 0000000a 000000000000000b"},
	{&SyncRequest{b("/a")}, "00000002 2f61"},
	{&SyncResponse{b("/a")}, "00000002 2f61"},
	{&WatcherEvent{EventNodeDeleted, StateSyncConnected, b("/a")}, "00000002 00000003 00000002 2f61"},
	{&WhoAmIResponse{[]ClientInfo{{b("ip"), b("::1")}, {b("super"), b("")}}}, "00000002 00000002 6970 00000003 3a3a31 00000005 7375706572 00000000"},
}

func b(s string) []byte { return []byte(s) }

func TestLayouts(t *testing.T) {
	missing := map[string]bool{}
	for _, r := range records {
		missing[name(r)] = true
	}
	for _, tt := range layouts {
		delete(missing, name(tt.record))
		t.Run(name(tt.record), func(t *testing.T) {
			want, err := hex.DecodeString(strings.ReplaceAll(tt.hex, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.record.Append(nil); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, want\n%x", got, want)
			}
			got := fresh(tt.record)
			if err := decode(got, want); err != nil || !reflect.DeepEqual(got, tt.record) {
				t.Errorf("decoded %+v, %v, want %+v", got, err, tt.record)
			}
		})
	}
	if len(missing) > 0 {
		t.Errorf("records without a layout: %v", missing)
	}
}
