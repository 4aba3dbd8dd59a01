package znode

import (
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

func TestWeigh(t *testing.T) {
	create := func(path string) []byte { return createOp(path, "", 0, jute.OpenACL).Append(nil) }
	for _, tt := range []struct {
		name string
		op   jute.Op
		body []byte
		want int
	}{
		{"create", jute.OpCreate, create("/a"), 1},
		{"setData", jute.OpSetData, jute.SetDataRequest{Path: []byte(quotaPath + "/q" + limitsSuffix)}.Append(nil), 1},
		{"multi", jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), rm("/b", 0)}), 2},
		{"empty multi", jute.OpMulti, jute.AppendMulti(nil, nil), 1},
		{"path of 128 levels", jute.OpCreate, create(strings.Repeat("/x", 128)), 128 / levelsPerOp},
		{"multi of a path of 128 levels", jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{mk(strings.Repeat("/x", 128), 0)}), 128 / levelsPerOp},
		{"identify", jute.OpIdentify, nil, identifyWeight},
		{"reconfig", jute.OpReconfig, nil, reconfigWeight},
		{"operator's change of the servers", jute.OpChangeServers, nil, reconfigWeight},
		{"kill", jute.OpKill, nil, killWeight},
		{"multi of quotas", jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{mk(quotaPath+"/q"+limitsSuffix, 0), mk(quotaPath+"/q"+usageSuffix, 0)}), 2},
	} {
		if got := TxnWeight(&proto.Txn{Op: int32(tt.op), Body: tt.body}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := TxnWeight(&proto.Txn{Op: int32(jute.OpCreate), Body: create("/a"), AclBytes: 1 << 20}); got != 4096 {
		t.Errorf("a create that stores 1 MiB of lists: %d, want an entry", got)
	}
}
