package znode

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// usage returns the text of a path's usage node, or the number of the error.
func (c *client) usage(path string) string {
	c.w.t.Helper()
	data, _, code := c.w.s().GetData([]byte(quotaPath+path+usageSuffix), c.ids, nil)
	if code != jute.OK {
		return fmt.Sprint(int(code))
	}
	return string(data)
}

func (c *client) wantUsage(path string, count, bytes int) {
	c.w.t.Helper()
	if got, want := c.usage(path), fmt.Sprintf("count=%d,bytes=%d", count, bytes); got != want {
		c.w.t.Errorf("usage of %s: %q, want %q", path, got, want)
	}
	checkInvariants(c.w.t, c.w.s())
}

func data(path, text string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Create: createOp(path, text, 0, jute.OpenACL)}
}

// Case 286: the usage follows every kind of change below the path. These changes fire no watch on
// the usage node, and they leave its versions and times alone.
func TestQuotaUsage(t *testing.T) {
	w := newWorld(t)
	k, e := w.connect(), w.connect()
	k.must(k.create("/q", 0)) // one byte
	k.must(k.create("/q/old", 0))
	k.must(k.create("/qq", 0))
	k.setQuota("/q", "count=100,bytes=-1")
	k.wantUsage("/q", 2, 2)
	stats := quotaPath + "/q" + usageSuffix
	if code := k.watchData(stats); code != jute.OK {
		t.Fatal(code)
	}
	before := k.stat(stats)
	k.must(k.multi(data("/q/a", "123456"), data("/qq/a", "no")))
	k.wantUsage("/q", 3, 8)
	k.must(k.setData("/q/a", "12", -1))
	k.wantUsage("/q", 3, 4)
	k.must(k.do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/q"), Version: -1}.Append(nil))) // null
	k.wantUsage("/q", 3, 3)
	e.must(e.create("/q/a/e", 1))
	e.must(e.create("/q/a/f", 1))
	k.wantUsage("/q", 5, 5)
	e.must(e.close())
	k.wantUsage("/q", 3, 3)
	k.must(k.container("/q/c"))
	k.must(k.create("/q/c/x", 0))
	k.must(k.delete("/q/c/x", -1))
	k.wantUsage("/q", 4, 3)
	w.wantGone("/q/c", 0, true)
	k.wantUsage("/q", 3, 3)
	k.multi(data("/q/z", "zzz"), rm("/q/a", -1), put("/q", -1), check("/none", 0))
	k.wantUsage("/q", 3, 3)
	if len(k.events) != 0 {
		t.Errorf("events %q", k.events)
	}
	after := k.stat(stats)
	before.DataLength = after.DataLength
	if after != before {
		t.Errorf("%+v, was %+v", after, before)
	}
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	for _, path := range []string{"/q/a", "/q/old", "/q"} {
		k.must(k.delete(path, -1))
	}
	k.wantUsage("/q", 0, 0)
	k.must(k.create("/q", 0))
	k.wantUsage("/q", 1, 1)
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
}

// A path has a quota as long as its limits node exists. The usage node holds its usage.
func TestQuotaNodes(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/q", 0))
	k.setQuota("/q", "count=1,bytes=1")
	k.must(k.delete(quotaPath+"/q"+usageSuffix, -1))
	k.must(k.create("/q/a", 0))
	k.must(k.create(quotaPath+"/q"+usageSuffix, 0))
	k.wantUsage("/q", 2, 2)
	k.must(k.delete(quotaPath+"/q"+limitsSuffix, -1))
	k.must(k.create("/q/b", 0))
	k.wantUsage("/q", 2, 2)
	k.must(k.create(quotaPath+"/q"+limitsSuffix, 0))
	k.wantUsage("/q", 3, 3)
	k.must(k.setData(quotaPath+"/q"+usageSuffix, "rubbish", -1))
	k.wantUsage("/q", 3, 3)
	k.setQuota("/q/b", "count=1,bytes=1") // the deepest quota counts
	k.must(k.create("/q/b/c", 0))
	k.wantUsage("/q", 3, 3)
	k.wantUsage("/q/b", 2, 2)
	k.must(k.multi(rm("/q/b/c", -1), rm("/q/b", -1)))
	k.wantUsage("/q/b", 0, 0)
	r := k.multi(rm(quotaPath+"/q"+limitsSuffix, -1), mk("/q/d", 0), check("/none", 0))
	if got := outcome(r); !slices.Equal(got, []string{"-1/0", "-1/0", "-1/-101"}) {
		t.Errorf("%q", got)
	}
	k.must(k.create("/q/e", 0))
	k.wantUsage("/q", 4, 4)
	k.must(k.multi(put(quotaPath+"/q"+usageSuffix, -1), mk("/q/f", 0)))
	k.wantUsage("/q", 5, 5)
	k.must(k.delete(quotaPath+"/q"+limitsSuffix, -1))
	k.must(k.setData(quotaPath+"/q"+usageSuffix, "rubbish", -1)) // there is no quota, and the text is the client's
	if got := k.usage("/q"); got != "rubbish" {
		t.Errorf("usage %q", got)
	}
}

// A text of limits that is too long has no limits, because every change below the path reads it.
func TestQuotaOfALongText(t *testing.T) {
	w := newWorld(t)
	w.rule(Rules{EnforceQuota: true})
	k := w.connect()
	k.must(k.create("/q", 0))
	limits := "countHardLimit=2"
	k.setQuota("/q", limits+strings.Repeat(",", maxQuotaText-len(limits)))
	k.must(k.create("/q/a", 0))
	if r := k.create("/q/b", 0); r.Code != jute.QuotaExceeded {
		t.Errorf("a text of %d bytes: %v", maxQuotaText, r.Code)
	}
	k.must(k.setData(quotaPath+"/q"+limitsSuffix, limits+strings.Repeat(",", maxQuotaText-len(limits)+1), -1))
	k.must(k.create("/q/b", 0))
	k.wantUsage("/q", 3, 3)
}

// A quota has no effect on the root, or on a path that holds nodes of quotas.
func TestNoQuota(t *testing.T) {
	for _, path := range []string{"", "/zookeeper", "/zookeeper/quota", "/zookeeper/quota/q"} {
		w := newWorld(t)
		w.rule(Rules{EnforceQuota: true})
		k := w.connect()
		if path == "" {
			k.must(k.multi(data(quotaPath+limitsSuffix, "count=-1,bytes=-1=;countHardLimit=1"), data(quotaPath+usageSuffix, "as it is")))
		} else {
			k.setQuota(path, "count=-1,bytes=-1=;countHardLimit=1")
		}
		k.must(k.create("/a", 0))
		k.must(k.create("/zookeeper/a", 0))
		if got := k.usage(path); path == "" && got != "as it is" || path != "" && got != "count=0,bytes=0" {
			t.Errorf("usage of %q: %q", path, got)
		}
		checkInvariants(t, w.s())
	}
	for _, path := range []string{"/zookeeper/quotas/zookeeper_limits", "/zookeeper/quota", "/zookeeper/quota/q/xzookeeper_limits", "/q/zookeeper_limits"} {
		if root, ok := rootOfLimitsNode(path); ok {
			t.Errorf("%s: quota on %q", path, root)
		}
	}
}

// Cases 287 and 288: hard limits hold if the rules enforce them. The usage before the request
// counts.
func TestHardLimits(t *testing.T) {
	w := newWorld(t)
	w.rule(Rules{EnforceQuota: true})
	k := w.connect()
	want := func(r Result, code jute.Code) {
		t.Helper()
		if r.Code != code {
			t.Errorf("%v, want %v", r.Code, code)
		}
	}
	k.must(k.create("/q", 0))
	k.setQuota("/q", "count=-1,bytes=-1=;byteHardLimit=8;countHardLimit=2")
	k.must(k.create("/q/a", 0))
	want(k.create("/q/b", 0), jute.QuotaExceeded)
	want(k.create("/q/b/c", 0), jute.NoNode)
	want(k.create("/q/a", 0), jute.NodeExists)
	k.must(k.setData("/q/a", "1234567", -1))
	want(k.setData("/q/a", "12345678", -1), jute.QuotaExceeded)
	want(k.setData("/q/a", "12345678", 9), jute.QuotaExceeded)
	want(k.setData("/q/a", "7654321", 9), jute.BadVersion)
	k.must(k.delete("/q/a", -1))
	r := k.multi(mk("/q/a", 0), mk("/q/b", 0), mk("/q/c", 0)) // each of them alone fits
	if got := outcome(r); !slices.Equal(got, []string{"1/0", "1/0", "1/0"}) {
		t.Errorf("%q", got)
	}
	k.wantUsage("/q", 4, 4)
	r = k.multi(rm("/q/c", -1), mk("/q/d", 0))
	if got := outcome(r); !slices.Equal(got, []string{"-1/0", "-1/-125"}) {
		t.Errorf("%q", got)
	}
	k.must(k.setData(quotaPath+"/q"+limitsSuffix, "count=-1,bytes=-1=;byteHardLimit=1", -1))
	k.must(k.setData("/q/a", "x", -1)) // the usage stays the same
	want(k.setData("/q/a", "", -1), jute.QuotaExceeded)
	k.must(k.delete("/q/a", -1))
	r = k.multi(data(quotaPath+"/r", ""), data(quotaPath+"/r"+limitsSuffix, "count=0,bytes=0=;countHardLimit=0"), data(quotaPath+"/r"+usageSuffix, ""), mk("/r", 0))
	if got := outcome(r); !slices.Equal(got, []string{"1/0", "1/0", "1/0", "1/0"}) {
		t.Errorf("a quota made in the same multi: %q", got)
	}
	want(k.create("/r/x", 0), jute.QuotaExceeded)
	if w.s().runningTxn.quotas.beforeMulti != nil {
		t.Error("the state before the multi is still held")
	}
	w.rule(Rules{})
	k.must(k.create("/r/x", 0))
}

// Cases 289 and 290: a write that is accepted although it exceeds a limit is reported, once for
// each transaction.
func TestOverused(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/q", 0))
	k.setQuota("/q", "count=1,bytes=3=;countHardLimit=2")
	heard := func(do func(), want ...string) {
		t.Helper()
		w.heard.log = nil
		do()
		got := slices.DeleteFunc(w.heard.log, func(s string) bool { return !strings.HasPrefix(s, "overused") })
		if !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	heard(func() { k.must(k.create("/q/a", 0)) })
	heard(func() { k.must(k.create("/q/b", 0)) }, "overused {Path:/q Count:3 CountLimit:2 Bytes:3 BytesLimit:3}")
	heard(func() { k.must(k.setData("/q/b", "", -1)) })
	heard(func() { k.multi(mk("/q/c", 0), check("/none", 0)) })
	heard(func() { k.must(k.multi(mk("/q/c", 0), mk("/q/d", 0))) }, "overused {Path:/q Count:5 CountLimit:2 Bytes:4 BytesLimit:3}")
	heard(func() { k.must(k.delete("/q/c", -1)) })

	// If there is a hard limit of bytes, the soft one does not count.
	k.must(k.create("/r", 0))
	k.setQuota("/r", "count=2,bytes=1=;byteHardLimit=4")
	heard(func() { k.must(k.setData("/r", "1234", -1)) })
	heard(func() { k.must(k.setData("/r", "12345", -1)) }, "overused {Path:/r Count:1 CountLimit:2 Bytes:5 BytesLimit:4}")
}

func TestParseQuota(t *testing.T) {
	none := QuotaValues{-1, -1, -1, -1}
	tests := map[string]QuotaValues{
		"": none, "count=5,bytes=100=;byteHardLimit=20;countHardLimit=4": {5, 100, 4, 20}, "count=5,bytes=-1": {5, -1, -1, -1},
		"count=": none, "count": none, "=": none, ";;,,": none, "count=x,bytes=3": {-1, 3, -1, -1}, "other=3": none, "bytes=7,count=+2": {2, 7, -1, -1},
	}
	for text, want := range tests {
		if got := ParseQuota([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
