package shell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// Nodes that hold quotas: quotaRoot has a copy of each path with a quota. The last node of the copy has the
// limits and the usage as children.
const (
	systemRoot = "/zookeeper"
	quotaRoot  = "/zookeeper/quota"
	limitsNode = "zookeeper_limits"
	usageNode  = "zookeeper_stats"
)

// quotaValues is the content of a limits or usage node. -1 is no limit. Unknown keys are kept.
type quotaValues map[string]int64

// A usage node has the first two keys only.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	countHardKey = "countHardLimit"
	bytesHardKey = "byteHardLimit"
)

// quotaFlags are the flags of setquota and delquota with their keys. A quota of bytes may be 0.
var quotaFlags = []struct {
	flag, key string
	least     int64
	bits      int
	wrong     string
}{
	{"n", countKey, 1, 32, "the num quota must be greater than zero"},
	{"b", bytesKey, 0, 64, "the bytes quota must be greater than or equal to zero"},
	{"N", countHardKey, 1, 32, "the num quota must be greater than zero"},
	{"B", bytesHardKey, 0, 64, "the bytes quota must be greater than or equal to zero"},
}

// unlimitedQuota returns limits that are no limits.
func unlimitedQuota() quotaValues {
	return quotaValues{countKey: -1, bytesKey: -1, countHardKey: -1, bytesHardKey: -1}
}

// parseAmounts parses "count=2,bytes=10=;byteHardLimit=30;countHardLimit=6", ZooKeeper's format.
func parseAmounts(data []byte) quotaValues {
	u := quotaValues{}
	for _, pair := range strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err != nil {
			n = -1
		}
		u[key] = n
	}
	return u
}

func (u quotaValues) valueOf(key string) int64 {
	if n, ok := u[key]; ok {
		return n
	}
	return -1
}

// String returns the node's content.
func (u quotaValues) String() string {
	text := fmt.Sprintf("count=%d,bytes=%d", u.valueOf(countKey), u.valueOf(bytesKey))
	var others []string
	for key, n := range u {
		if key != countKey && key != bytesKey {
			others = append(others, fmt.Sprintf("%s=%d", key, n))
		}
	}
	if len(others) == 0 {
		return text
	}
	slices.Sort(others)
	return text + "=;" + strings.Join(others, ";")
}

type quotaCommands struct {
	session *session
	screen  *screen
}

func asVerb(run func(q quotaCommands, ctx context.Context, a *arguments) error) func(*Shell, context.Context,
	*arguments) error {
	return func(s *Shell, ctx context.Context, a *arguments) error {
		return run(quotaCommands{s.session, s.screen}, ctx, a)
	}
}

func (q quotaCommands) setQuota(ctx context.Context, a *arguments) error {
	path := a.path()
	if strings.HasPrefix(path, quotaRoot) {
		q.screen.printMessage(errorStyle, "cannot set a quota under the path: "+quotaRoot)
		return nil
	}
	limits := unlimitedQuota()
	for _, f := range quotaFlags {
		text, given := a.optionValues[f.flag]
		if !given {
			continue
		}
		n, err := strconv.ParseInt(text, 10, f.bits)
		switch {
		case err != nil:
			q.screen.printMessage(errorStyle, "NumberFormatException happens when parsing the option value")
			return nil
		case n < f.least:
			q.screen.printMessage(errorStyle, f.wrong)
			return nil
		}
		limits[f.key] = n
	}
	if _, err := q.session.statNode(ctx, path, false); hasCode(err, jute.NoNode) {
		return zkCliError(path + " does not exist.")
	} else if err != nil {
		return err
	}
	if err := q.checkOtherQuotas(ctx, path); err != nil {
		return err
	}
	return q.mergeLimits(ctx, path, limits)
}

// checkOtherQuotas returns an error if an ancestor or a descendant of path has a quota. ZooKeeper allows one
// per branch.
func (q quotaCommands) checkOtherQuotas(ctx context.Context, path string) error {
	err := q.session.visitSubtree(ctx, quotaRoot+path, false, func(at string) error {
		has, err := q.hasLimits(ctx, at)
		if has && at != quotaRoot+path {
			return zkCliError(path + " has a child " + strings.TrimPrefix(at, quotaRoot) + " which has a quota")
		}
		return err
	})
	if err != nil && !hasCode(err, jute.NoNode) {
		return err
	}
	at := quotaRoot
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		at = joinPath(at, name)
		has, err := q.hasLimits(ctx, at)
		if has && at != quotaRoot+path {
			return zkCliError(path + " has a parent " + strings.TrimPrefix(at, quotaRoot) + " which has a quota")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasLimits reports whether a node below quotaRoot holds a quota. A missing node does not.
func (q quotaCommands) hasLimits(ctx context.Context, at string) (bool, error) {
	names, _, err := q.session.listChildren(ctx, at, false)
	if hasCode(err, jute.NoNode) {
		return false, nil
	}
	return slices.Contains(names, limitsNode), err
}

// mergeLimits writes limits and keeps those that they do not set. It warns if the usage already exceeds them.
func (q quotaCommands) mergeLimits(ctx context.Context, path string, limits quotaValues) error {
	at := quotaRoot
	nodes := []string{systemRoot, quotaRoot}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		at = joinPath(at, name)
		nodes = append(nodes, at)
	}
	for _, node := range nodes {
		if err := q.session.ensureNode(ctx, node, nil); err != nil {
			return err
		}
	}
	before, _, err := q.session.getData(ctx, joinPath(at, limitsNode), false)
	switch {
	case hasCode(err, jute.NoNode):
		if err := q.session.ensureNode(ctx, joinPath(at, limitsNode), []byte(limits.String())); err != nil {
			return err
		}
		none := quotaValues{countKey: 0, bytesKey: 0}
		if err := q.session.ensureNode(ctx, joinPath(at, usageNode), []byte(none.String())); err != nil {
			return err
		}
		return q.warnExceeded(ctx, at, limits)
	case err != nil:
		return err
	}
	merged := parseAmounts(before)
	for _, f := range quotaFlags {
		if n := limits.valueOf(f.key); n > -1 {
			merged[f.key] = n
		}
	}
	if err := q.warnExceeded(ctx, at, merged); err != nil {
		return err
	}
	_, err = q.session.setData(ctx, joinPath(at, limitsNode), []byte(merged.String()), -1)
	return err
}

// warnExceeded prints a warning for each limit below the usage.
func (q quotaCommands) warnExceeded(ctx context.Context, at string, limits quotaValues) error {
	data, _, err := q.session.getData(ctx, joinPath(at, usageNode), false)
	if err != nil {
		return err
	}
	used := parseAmounts(data)
	below := func(key string, n int64) bool { return limits.valueOf(key) > -1 && limits.valueOf(key) < n }
	if n := used.valueOf(countKey); below(countKey, n) || below(countHardKey, n) {
		q.screen.printf("[Warning]: the count quota you create is less than the existing count:%d", n)
	}
	if n := used.valueOf(bytesKey); below(bytesKey, n) || below(bytesHardKey, n) {
		q.screen.printf("[Warning]: the bytes quota you create is less than the existing bytes:%d", n)
	}
	return nil
}

func (q quotaCommands) listQuota(ctx context.Context, a *arguments) error {
	path := a.path()
	q.screen.printMessage(plainStyle, "absolute path is "+quotaRoot+path+"/"+limitsNode)
	limits, _, err := q.session.getData(ctx, quotaRoot+path+"/"+limitsNode, false)
	var used []byte
	if err == nil {
		used, _, err = q.session.getData(ctx, quotaRoot+path+"/"+usageNode, false)
	}
	if hasCode(err, jute.NoNode) {
		q.screen.printMessage(errorStyle, "quota for "+path+" does not exist.")
		return nil
	}
	if err != nil {
		return err
	}
	q.screen.printf("Output quota for %s %v", path, parseAmounts(limits))
	q.screen.printf("Output stat for %s %v", path, parseAmounts(used))
	return nil
}

// deleteQuota removes the limit of the given flag, or the whole quota without a flag.
func (q quotaCommands) deleteQuota(ctx context.Context, a *arguments) error {
	path := a.path()
	at := quotaRoot + path
	data, _, err := q.session.getData(ctx, at+"/"+limitsNode, false)
	if hasCode(err, jute.NoNode) {
		q.screen.print("Quota does not exist for " + path + "\n")
		return nil
	}
	if err != nil {
		return err
	}
	limits := parseAmounts(data)
	for _, f := range quotaFlags {
		if a.hasFlag(f.flag) {
			limits[f.key] = -1
			_, err := q.session.setData(ctx, at+"/"+limitsNode, []byte(limits.String()), -1)
			return err
		}
	}
	names, _, err := q.session.listChildren(ctx, at, false)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := q.session.deleteNode(ctx, joinPath(at, name), -1); err != nil {
			return err
		}
	}
	return q.removeEmptyNodes(ctx, at)
}

// removeEmptyNodes deletes a node below quotaRoot and its ancestors, as far as they have no children.
func (q quotaCommands) removeEmptyNodes(ctx context.Context, at string) error {
	for at != quotaRoot {
		names, _, err := q.session.listChildren(ctx, at, false)
		if err != nil || len(names) > 0 {
			return err
		}
		if err := q.session.deleteNode(ctx, at, -1); err != nil {
			return err
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return nil
}
