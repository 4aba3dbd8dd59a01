package jute

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// golden is a frame as clients and servers of ZooKeeper 3.9.5 send it, with the records that it
// consists of.
type golden struct {
	name  string
	hex   string // with the length in front
	parts []Record
}

func (g golden) frame() []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(g.hex, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

var (
	golden16 = make([]byte, 16)
	goldenPW = []byte{0x93, 0x99, 0xc6, 0x12, 0xeb, 0x6b, 0x53, 0x17, 0x4f, 0x64, 0xf5, 0x62, 0xb6, 0xb7, 0x1d, 0x29}
	goldenV  = []byte("/v")
)

var goldens = []golden{
	{
		"connect request", "0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010 00000000000000000000000000000000 00",
		[]Record{&ConnectRequest{TimeOut: 10000, Passwd: golden16, HasReadOnly: true}},
	},
	{
		"connect request of an old client", "0000002c 00000000 0000000000000000 00002710 0000000000000000 00000010 00000000000000000000000000000000",
		[]Record{&ConnectRequest{TimeOut: 10000, Passwd: golden16}},
	},
	{
		"connect response", "00000025 00000000 00002710 0100000df1d70036 00000010 9399c612eb6b53174f64f562b6b71d29 00",
		[]Record{&ConnectResponse{TimeOut: 10000, SessionID: 0x0100000df1d70036, Passwd: goldenPW, HasReadOnly: true}},
	},
	{
		"connect response for an old client", "00000024 00000000 00002710 0100000df1d70036 00000010 9399c612eb6b53174f64f562b6b71d29",
		[]Record{&ConnectResponse{TimeOut: 10000, SessionID: 0x0100000df1d70036, Passwd: goldenPW}},
	},
	{
		"refusal", "00000025 00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000 00",
		[]Record{&ConnectResponse{Passwd: golden16, HasReadOnly: true}},
	},
	{
		"ping", "00000008 fffffffe 0000000b",
		[]Record{&RequestHeader{XidPing, OpPing}},
	},
	{
		"ping reply", "00000010 fffffffe 00000000000001e4 00000000",
		[]Record{&ReplyHeader{XidPing, 0x1e4, OK}},
	},
	{
		"create", "00000033 00000001 00000001 00000002 2f76 00000002 6869 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000",
		[]Record{&RequestHeader{1, OpCreate}, &CreateRequest{Path: goldenV, Data: []byte("hi"), ACL: OpenACL, Flags: Persistent}},
	},
	{
		"create reply", "00000016 00000001 00000000000001e5 00000000 00000002 2f76",
		[]Record{&ReplyHeader{1, 0x1e5, OK}, &CreateResponse{goldenV}},
	},
	{
		"getData", "0000000f 00000002 00000004 00000002 2f76 01",
		[]Record{&RequestHeader{2, OpGetData}, &GetDataRequest{goldenV, true}},
	},
	{
		"event", "0000001e ffffffff 00000000000001e6 00000000 00000003 00000003 00000002 2f76",
		[]Record{&ReplyHeader{XidNotification, 0x1e6, OK}, &WatcherEvent{EventNodeDataChanged, StateSyncConnected, goldenV}},
	},
	{
		"exists reply, no node", "00000010 00000004 00000000000001e6 ffffff9b",
		[]Record{&ReplyHeader{4, 0x1e6, NoNode}},
	},
	{
		"multi", "00000037 00000006 0000000e 0000000d 00 ffffffff 00000002 2f76 00000001 00000002 00 ffffffff 00000002 2f76 00000009 ffffffff 01 ffffffff",
		[]Record{
			&RequestHeader{6, OpMulti},
			&MultiHeader{OpCheck, false, -1}, &CheckVersionRequest{goldenV, 1},
			&MultiHeader{OpDelete, false, -1}, &DeleteRequest{goldenV, 9},
			&MultiHeader{OpError, true, -1},
		},
	},
	{
		"multi reply, bad version", "00000033 00000006 00000000000001e7 00000000 ffffffff 00 00000000 00000000 ffffffff 00 ffffff99 ffffff99 ffffffff 01 ffffffff",
		[]Record{
			&ReplyHeader{6, 0x1e7, OK},
			&MultiHeader{OpError, false, OK}, &ErrorResponse{OK},
			&MultiHeader{OpError, false, BadVersion}, &ErrorResponse{BadVersion},
			&MultiHeader{OpError, true, -1},
		},
	},
	{
		"delete reply", "00000010 00000007 00000000000001e8 00000000",
		[]Record{&ReplyHeader{7, 0x1e8, OK}},
	},
	{
		"auth", "0000001d fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70",
		[]Record{&RequestHeader{XidAuth, OpAuth}, &AuthPacket{0, []byte("digest"), []byte("u:p")}},
	},
	{
		"auth reply", "00000010 fffffffc 0000000000000000 00000000",
		[]Record{&ReplyHeader{XidAuth, 0, OK}},
	},
	{
		"event that setWatches catches up on", "0000001e ffffffff ffffffffffffffff 00000000 00000002 00000003 00000002 2f76",
		[]Record{&ReplyHeader{XidNotification, -1, OK}, &WatcherEvent{EventNodeDeleted, StateSyncConnected, goldenV}},
	},
	{
		"setWatches reply", "00000010 fffffff8 00000000000001e8 00000000",
		[]Record{&ReplyHeader{XidSetWatches, 0x1e8, OK}},
	},
	{
		"closeSession", "00000008 00000009 fffffff5",
		[]Record{&RequestHeader{9, OpCloseSession}},
	},
	{
		"closeSession reply", "00000010 00000009 00000000000001e9 00000000",
		[]Record{&ReplyHeader{9, 0x1e9, OK}},
	},
}

func TestGoldenEncode(t *testing.T) {
	for _, tt := range goldens {
		t.Run(tt.name, func(t *testing.T) {
			b, mark := BeginFrame([]byte("before"))
			for _, part := range tt.parts {
				b = part.Append(b)
			}
			if got := EndFrame(b, mark)[len("before"):]; !bytes.Equal(got, tt.frame()) {
				t.Errorf("encoded\n%x, want\n%x", got, tt.frame())
			}
		})
	}
}

func TestGoldenDecode(t *testing.T) {
	for _, tt := range goldens {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := ReadFrame(bytes.NewReader(tt.frame()), nil, DefaultMaxBuffer)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDecoder(frame)
			for _, want := range tt.parts {
				got := fresh(want)
				if got.Decode(&d); !reflect.DeepEqual(got, want) {
					t.Errorf("decoded %+v, want %+v", got, want)
				}
			}
			if d.Err() != nil || len(d.Rest()) > 0 {
				t.Errorf("Err() = %v, %d bytes left", d.Err(), len(d.Rest()))
			}
		})
	}
}
