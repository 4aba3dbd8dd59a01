package znode

import (
	"testing"

	"rollcall/jute"
)

func TestWeigh(t *testing.T) {
	create := func(path string) []byte { return createOp(path, "", 0, jute.OpenACL).Append(nil) }
	quota := mk(quotaPath+"/q"+limitsName, 0)
	for _, tt := range []struct {
		name string
		op   jute.Op
		body []byte
		want int
	}{
		{"create", jute.OpCreate, create("/a"), 1},
		{"node of that name elsewhere", jute.OpCreate, create("/a" + limitsName), 1},
		{"parent of a quota", jute.OpCreate, create(quotaPath + "/q"), 1},
		{"limits", jute.OpCreate, create(quotaPath + "/q" + limitsName), 1 + countWeight},
		{"usage", jute.OpCreate2, create(quotaPath + "/q" + usageName), 1 + countWeight},
		{"container", jute.OpCreateContainer, create(quotaPath + "/q" + usageName), 1 + countWeight},
		{"setData", jute.OpSetData, jute.SetDataRequest{Path: []byte(quotaPath + "/q" + limitsName)}.Append(nil), 1},
		{"multi", jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), rm("/b", 0)}), 2},
		{"empty multi", jute.OpMulti, jute.AppendMulti(nil, nil), 1},
		{"multi of quotas", jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), quota, quota}), 3 + 2*countWeight},
	} {
		if got := Weigh(tt.op, tt.body); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
