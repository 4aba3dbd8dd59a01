package zktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// request is a request of the table.
type request struct {
	op   jute.Op
	body []byte
}

// modes are the modes of creates by their names in the table.
var modes = map[string]jute.CreateMode{
	"persistent": jute.Persistent, "ephemeral": jute.Ephemeral, "sequential": jute.PersistentSequential,
	"ephemeral-sequential": jute.EphemeralSequential, "container": jute.Container,
}

// watcherTypes are the types of removewatch and checkwatch.
var watcherTypes = map[string]jute.WatcherType{
	"children": jute.WatcherChildren, "data": jute.WatcherData, "any": jute.WatcherAny,
	"persistent": jute.WatcherPersistent, "recursive": jute.WatcherPersistentRecursive,
}

// parseRequest returns the request of some words:
//
//	create PATH MODE [DATA]      set PATH DATA VERSION     delete PATH VERSION    check PATH VERSION, in a multi
//	get, exists, children PATH [watch]                     ephemerals PATH
//	multi OPERATION | ...        reads OPERATION | ...     sync                   close
//	addwatch PATH persistent or recursive                  removewatch, checkwatch PATH TYPE
//	rewatch data=PATH,... exist= child= persistent= recursive=
func (r *caseRun) parseRequest(c *client, words []string) (request, error) {
	verb, args := words[0], words[1:]
	path := func() []byte { return []byte(r.root + strings.TrimSuffix(args[0], "/")) }
	watched := func() []byte { return jute.WatchedPath{Path: path(), Watch: len(args) > 1}.Append(nil) }
	switch verb {
	case "get":
		return request{jute.OpGetData, watched()}, nil
	case "exists":
		return request{jute.OpExists, watched()}, nil
	case "children":
		return request{jute.OpGetChildren2, watched()}, nil
	case "ephemerals":
		return request{jute.OpGetEphemerals, jute.PathRecord{Path: path()}.Append(nil)}, nil
	case "sync":
		return request{jute.OpSync, jute.SyncRequest{Path: []byte("/")}.Append(nil)}, nil
	case "close":
		return request{jute.OpCloseSession, nil}, nil
	case "addwatch":
		mode := jute.AddWatchPersistent
		if args[1] == "recursive" {
			mode = jute.AddWatchPersistentRecursive
		}
		return request{jute.OpAddWatch, jute.AddWatchRequest{Path: path(), Mode: mode}.Append(nil)}, nil
	case "removewatch":
		return request{jute.OpRemoveWatches, jute.WatcherRequest{Path: path(), Type: watcherTypes[args[1]]}.Append(nil)}, nil
	case "checkwatch":
		return request{jute.OpCheckWatches, jute.WatcherRequest{Path: path(), Type: watcherTypes[args[1]]}.Append(nil)}, nil
	case "rewatch":
		return request{jute.OpSetWatches2, r.setWatches(c, args).Append(nil)}, nil
	case "multi", "reads":
		return r.parseMulti(verb, args)
	}
	op, err := r.parseOperation(words)
	if err != nil {
		return request{}, err
	}
	body := jute.AppendMultiOp(nil, &op)
	return request{op.Op, body[len(jute.MultiHeader{}.Append(nil)):]}, nil
}

func (r *caseRun) parseMulti(verb string, words []string) (request, error) {
	var ops []jute.MultiOp
	for part := range strings.SplitSeq(strings.Join(words, " "), "|") {
		op, err := r.parseOperation(strings.Fields(part))
		if err != nil {
			return request{}, err
		}
		ops = append(ops, op)
	}
	if verb == "reads" {
		return request{jute.OpMultiRead, jute.AppendMulti(nil, ops)}, nil
	}
	return request{jute.OpMulti, jute.AppendMulti(nil, ops)}, nil
}

// parseOperation returns an operation that can be one of a multi.
func (r *caseRun) parseOperation(words []string) (op jute.MultiOp, err error) {
	path := []byte(r.root + words[1])
	lastVersion := func() int32 {
		version, convErr := strconv.Atoi(words[len(words)-1])
		err = convErr
		return int32(version)
	}
	switch verb := words[0]; {
	case verb == "create" && len(words) >= 3:
		mode, known := modes[words[2]]
		if !known {
			return op, fmt.Errorf("unknown mode %q", words[2])
		}
		op.Op = jute.OpCreate2
		if mode.IsContainer() {
			op.Op = jute.OpCreateContainer
		}
		op.Create = jute.CreateRequest{
			Path: path, Data: []byte(strings.Join(words[3:], " ")), ACL: jute.OpenACL, Flags: mode,
		}
	case verb == "set":
		op.Op, op.SetData = jute.OpSetData, jute.SetDataRequest{Path: path, Data: []byte(words[2]), Version: lastVersion()}
	case verb == "delete":
		op.Op, op.Delete = jute.OpDelete, jute.DeleteRequest{Path: path, Version: lastVersion()}
	case verb == "check":
		op.Op, op.Check = jute.OpCheck, jute.CheckVersionRequest{Path: path, Version: lastVersion()}
	case verb == "get":
		op.Op, op.GetData = jute.OpGetData, jute.GetDataRequest{Path: path}
	case verb == "children":
		op.Op, op.GetChildren = jute.OpGetChildren, jute.GetChildrenRequest{Path: path}
	default:
		return op, fmt.Errorf("unknown request %q", verb)
	}
	return op, err
}

// setWatches returns the record of rewatch.
func (r *caseRun) setWatches(c *client, args []string) jute.SetWatches2 {
	lists := map[string][][]byte{}
	for _, arg := range args {
		kind, paths, _ := strings.Cut(arg, "=")
		for path := range strings.SplitSeq(paths, ",") {
			lists[kind] = append(lists[kind], []byte(r.root+path))
		}
	}
	list := func(kind string) [][]byte { return append([][]byte{}, lists[kind]...) }
	return jute.SetWatches2{
		RelativeZxid: c.seen, Data: list("data"), Exist: list("exist"), Child: list("child"),
		Persistent: list("persistent"), Recursive: list("recursive"),
	}
}

// formatReply returns the record of a reply as text.
func (r *caseRun) formatReply(req request, d *jute.Decoder) string {
	switch req.op {
	case jute.OpMulti, jute.OpMultiRead:
		return r.formatMulti(d)
	case jute.OpGetChildren2:
		var resp jute.GetChildren2Response
		resp.Decode(d)
		return strings.TrimSpace(formatNames(resp.Children) + " " + r.formatStat(resp.Stat))
	case jute.OpGetEphemerals:
		var resp jute.GetEphemeralsResponse
		resp.Decode(d)
		for i, path := range resp.Ephemerals {
			resp.Ephemerals[i] = []byte(r.shorten(path))
		}
		return formatNames(resp.Ephemerals)
	}
	return r.formatResult(req.op, d)
}

// formatResult returns the result of an operation that can be one of a multi.
func (r *caseRun) formatResult(op jute.Op, d *jute.Decoder) string {
	switch op {
	case jute.OpCreate2, jute.OpCreateContainer:
		var resp jute.Create2Response
		resp.Decode(d)
		return r.shorten(resp.Path) + " " + r.formatStat(resp.Stat)
	case jute.OpSetData, jute.OpExists:
		var resp jute.StatRecord
		resp.Decode(d)
		return r.formatStat(resp.Stat)
	case jute.OpGetData:
		var resp jute.GetDataResponse
		resp.Decode(d)
		return fmt.Sprintf("%q %s", resp.Data, r.formatStat(resp.Stat))
	case jute.OpGetChildren:
		var resp jute.GetChildrenResponse
		resp.Decode(d)
		return formatNames(resp.Children)
	}
	return "ok"
}

func (r *caseRun) formatMulti(d *jute.Decoder) string {
	var results []string
	for {
		var h jute.MultiHeader
		h.Decode(d)
		if d.Err() != nil || h.Done {
			return strings.Join(results, " | ")
		}
		if h.Type == jute.OpError {
			var failed jute.ErrorResponse
			failed.Decode(d)
			results = append(results, failed.Err.Error())
			continue
		}
		results = append(results, r.formatResult(h.Type, d))
	}
}

func formatNames(names [][]byte) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	slices.Sort(texts)
	return "[" + strings.Join(texts, " ") + "]"
}

// formatStat returns what a Stat says that is the same in each run. The zxids are compared with each other.
func (r *caseRun) formatStat(s jute.Stat) string {
	text := fmt.Sprintf("v%d cv%d n%d len%d", s.Version, s.Cversion, s.NumChildren, s.DataLength)
	for name, c := range r.clients {
		if c.session == s.EphemeralOwner {
			text += " of-" + name
		}
	}
	for _, zxid := range []struct {
		name  string
		value int64
	}{{"data", s.Mzxid}, {"children", s.Pzxid}, {"created", s.Czxid}} {
		if zxid.value == r.written {
			text += " " + zxid.name + "-now"
		}
	}
	return text
}
