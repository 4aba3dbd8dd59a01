package shell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// These are the names of the nodes that hold quotas: below quotaRoot there is a copy of each path
// with a quota, and below the last node of the copy are the limits and what is used of them.
const (
	systemRoot = "/zookeeper"
	quotaRoot  = "/zookeeper/quota"
	limitsName = "zookeeper_limits"
	usedName   = "zookeeper_stats"
)

// amounts are the content of a node of limits, or of what is used. -1 stands for no limit. A node may
// have other keys, which are kept.
type amounts struct {
	values map[string]int64
}

// These are the keys. What is used has the first two only.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	countHardKey = "countHardLimit"
	bytesHardKey = "byteHardLimit"
)

// quotaFlags are the flags of setquota and delquota with the keys that they stand for. A quota of bytes
// may be 0.
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

// noLimits returns limits that are no limits.
func noLimits() amounts {
	return amounts{map[string]int64{countKey: -1, bytesKey: -1, countHardKey: -1, bytesHardKey: -1}}
}

// parseAmounts reads "count=2,bytes=10=;byteHardLimit=30;countHardLimit=6", as ZooKeeper writes it.
func parseAmounts(data []byte) amounts {
	u := amounts{map[string]int64{}}
	for _, pair := range strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err != nil {
			n = -1
		}
		u.values[key] = n
	}
	return u
}

func (u amounts) get(key string) int64 {
	if n, ok := u.values[key]; ok {
		return n
	}
	return -1
}

// String returns the content of the node.
func (u amounts) String() string {
	text := fmt.Sprintf("count=%d,bytes=%d", u.get(countKey), u.get(bytesKey))
	var others []string
	for key, n := range u.values {
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

// quotas has the verbs that set, list and remove quotas.
type quotas struct {
	nodes  *nodes
	screen *screen
}

// quotaVerb returns what runs one of these verbs.
func quotaVerb(run func(q quotas, ctx context.Context, a *arguments) error) func(*Shell, context.Context, *arguments) error {
	return func(s *Shell, ctx context.Context, a *arguments) error { return run(quotas{s.nodes, s.screen}, ctx, a) }
}

func (q quotas) set(ctx context.Context, a *arguments) error {
	path := a.path()
	if strings.HasPrefix(path, quotaRoot) {
		q.screen.say(problem, "cannot set a quota under the path: "+quotaRoot)
		return nil
	}
	limits := noLimits()
	for _, f := range quotaFlags {
		text, given := a.values[f.flag]
		if !given {
			continue
		}
		n, err := strconv.ParseInt(text, 10, f.bits)
		switch {
		case err != nil:
			q.screen.say(problem, "NumberFormatException happens when parsing the option value")
			return nil
		case n < f.least:
			q.screen.say(problem, f.wrong)
			return nil
		}
		limits.values[f.key] = n
	}
	if _, err := q.nodes.exists(ctx, path, false); failed(err, jute.NoNode) {
		return message(path + " does not exist.")
	} else if err != nil {
		return err
	}
	if err := q.other(ctx, path); err != nil {
		return err
	}
	return q.store(ctx, path, limits)
}

// other returns an error if a node above or below the path has a quota: there can be one on
// each way from the root.
func (q quotas) other(ctx context.Context, path string) error {
	err := q.nodes.visit(ctx, quotaRoot+path, false, func(at string) error {
		has, err := q.hasLimits(ctx, at)
		if has && at != quotaRoot+path {
			return message(path + " has a child " + strings.TrimPrefix(at, quotaRoot) + " which has a quota")
		}
		return err
	})
	if err != nil && !failed(err, jute.NoNode) {
		return err
	}
	at := quotaRoot
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		at = join(at, name)
		has, err := q.hasLimits(ctx, at)
		if has && at != quotaRoot+path {
			return message(path + " has a parent " + strings.TrimPrefix(at, quotaRoot) + " which has a quota")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasLimits reports whether a node below quotaRoot holds a quota. One that does not exist holds none.
func (q quotas) hasLimits(ctx context.Context, at string) (bool, error) {
	names, _, err := q.nodes.children(ctx, at, false)
	if failed(err, jute.NoNode) {
		return false, nil
	}
	return slices.Contains(names, limitsName), err
}

// store writes the limits that are set, and warns if the node exceeds them already.
func (q quotas) store(ctx context.Context, path string, limits amounts) error {
	at := quotaRoot
	nodes := []string{systemRoot, quotaRoot}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		at = join(at, name)
		nodes = append(nodes, at)
	}
	for _, node := range nodes {
		if err := q.nodes.ensure(ctx, node, nil); err != nil {
			return err
		}
	}
	before, _, err := q.nodes.get(ctx, join(at, limitsName), false)
	switch {
	case failed(err, jute.NoNode):
		if err := q.nodes.ensure(ctx, join(at, limitsName), []byte(limits.String())); err != nil {
			return err
		}
		none := amounts{map[string]int64{countKey: 0, bytesKey: 0}}
		if err := q.nodes.ensure(ctx, join(at, usedName), []byte(none.String())); err != nil {
			return err
		}
		return q.warnExceeded(ctx, at, limits)
	case err != nil:
		return err
	}
	merged := parseAmounts(before)
	for _, f := range quotaFlags {
		if n := limits.get(f.key); n > -1 {
			merged.values[f.key] = n
		}
	}
	if err := q.warnExceeded(ctx, at, merged); err != nil {
		return err
	}
	_, err = q.nodes.set(ctx, join(at, limitsName), []byte(merged.String()), -1)
	return err
}

// warnExceeded prints a warning for each limit below what is used.
func (q quotas) warnExceeded(ctx context.Context, at string, limits amounts) error {
	data, _, err := q.nodes.get(ctx, join(at, usedName), false)
	if err != nil {
		return err
	}
	used := parseAmounts(data)
	below := func(key string, n int64) bool { return limits.get(key) > -1 && limits.get(key) < n }
	if n := used.get(countKey); below(countKey, n) || below(countHardKey, n) {
		q.screen.printf("[Warning]: the count quota you create is less than the existing count:%d", n)
	}
	if n := used.get(bytesKey); below(bytesKey, n) || below(bytesHardKey, n) {
		q.screen.printf("[Warning]: the bytes quota you create is less than the existing bytes:%d", n)
	}
	return nil
}

func (q quotas) list(ctx context.Context, a *arguments) error {
	path := a.path()
	q.screen.say(plain, "absolute path is "+quotaRoot+path+"/"+limitsName)
	limits, _, err := q.nodes.get(ctx, quotaRoot+path+"/"+limitsName, false)
	var used []byte
	if err == nil {
		used, _, err = q.nodes.get(ctx, quotaRoot+path+"/"+usedName, false)
	}
	if failed(err, jute.NoNode) {
		q.screen.say(problem, "quota for "+path+" does not exist.")
		return nil
	}
	if err != nil {
		return err
	}
	q.screen.printf("Output quota for %s %v", path, parseAmounts(limits))
	q.screen.printf("Output stat for %s %v", path, parseAmounts(used))
	return nil
}

// delete removes one limit of a node, or the whole quota if no flag says which.
func (q quotas) delete(ctx context.Context, a *arguments) error {
	path := a.path()
	at := quotaRoot + path
	data, _, err := q.nodes.get(ctx, at+"/"+limitsName, false)
	if failed(err, jute.NoNode) {
		q.screen.print("Quota does not exist for " + path + "\n")
		return nil
	}
	if err != nil {
		return err
	}
	limits := parseAmounts(data)
	for _, f := range quotaFlags {
		if a.has(f.flag) {
			limits.values[f.key] = -1
			_, err := q.nodes.set(ctx, at+"/"+limitsName, []byte(limits.String()), -1)
			return err
		}
	}
	names, _, err := q.nodes.children(ctx, at, false)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := q.nodes.delete(ctx, join(at, name), -1); err != nil {
			return err
		}
	}
	return q.trim(ctx, at)
}

// trim deletes a node below quotaRoot, and those above it, as long as they have no children.
func (q quotas) trim(ctx context.Context, at string) error {
	for at != quotaRoot {
		names, _, err := q.nodes.children(ctx, at, false)
		if err != nil || len(names) > 0 {
			return err
		}
		if err := q.nodes.delete(ctx, at, -1); err != nil {
			return err
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return nil
}
