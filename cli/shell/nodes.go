package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// deleteBatch is how many nodes deleteall deletes in one request, unless -b says otherwise.
const deleteBatch = 1000

func (s *Shell) createNode(ctx context.Context, a *arguments) error {
	mode, ttl, err := createMode(a)
	if err != nil {
		return err
	}
	path, acl := a.path(), jute.OpenACL
	var data []byte
	if len(a.words) > 2 {
		data = []byte(a.words[2])
	}
	if len(a.words) > 3 {
		acl = s.parseACL(a.words[3])
	}
	checked := path
	if mode.IsSequential() {
		checked += "1" // the number that the server appends
	}
	if err := checkPath(checked); err != nil {
		return err
	}
	made, err := s.nodes.createNode(ctx, path, data, acl, mode, ttl)
	if f, ok := errors.AsType[*requestError](err); ok && f.code == jute.InvalidACL {
		s.screen.printMessage(errorStyle, f.javaMessage())
	}
	if err == nil {
		s.screen.printMessage(plainStyle, "Created "+made)
	}
	return err
}

// createMode returns the kind of node that the flags of create ask for, and its time to live in ms.
func createMode(a *arguments) (mode jute.CreateMode, ttl int64, err error) {
	ephemeral, sequential, container, limited := a.hasFlag("e"), a.hasFlag("s"), a.hasFlag("c"), a.hasFlag("t")
	if container && (ephemeral || sequential) {
		return 0, 0, zkCliError("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	}
	if ttl, err = a.intFlag("t", 64, 0); err != nil {
		return 0, 0, err
	}
	switch {
	case limited && ephemeral:
		return 0, 0, zkCliError("TTLs cannot be used with Ephemeral znodes")
	case limited && container:
		return 0, 0, zkCliError("TTLs cannot be used with Container znodes")
	case limited && (ttl <= 0 || ttl > jute.MaxTTL):
		return 0, 0, zkCliError(fmt.Sprintf("ttl must be positive and cannot be larger than: %d", int64(jute.MaxTTL)))
	case container:
		return jute.Container, 0, nil
	case limited && sequential:
		return jute.PersistentSequentialWithTTL, ttl, nil
	case limited:
		return jute.PersistentWithTTL, ttl, nil
	case ephemeral && sequential:
		return jute.EphemeralSequential, 0, nil
	case ephemeral:
		return jute.Ephemeral, 0, nil
	case sequential:
		return jute.PersistentSequential, 0, nil
	}
	return jute.Persistent, 0, nil
}

func (s *Shell) getNode(ctx context.Context, a *arguments) error {
	data, stat, err := s.nodes.getData(ctx, a.path(), a.hasFlag("w"))
	if err != nil {
		return err
	}
	s.screen.print(textOf(data) + "\n")
	if a.hasFlag("s") {
		s.screen.printStat(stat)
	}
	return nil
}

// textOf returns data as they are printed.
func textOf(data []byte) string {
	if data == nil {
		return "null"
	}
	return string(data)
}

func (s *Shell) setNode(ctx context.Context, a *arguments) error {
	version, err := a.expectedVersion()
	if err != nil {
		return err
	}
	stat, err := s.nodes.setData(ctx, a.path(), []byte(a.words[2]), version)
	if err == nil && a.hasFlag("s") {
		s.screen.printStat(stat)
	}
	return err
}

func (s *Shell) deleteNode(ctx context.Context, a *arguments) error {
	version, err := a.expectedVersion()
	if err != nil {
		return err
	}
	return s.nodes.deleteNode(ctx, a.path(), version)
}

func (s *Shell) statNode(ctx context.Context, a *arguments) error {
	stat, err := s.nodes.statNode(ctx, a.path(), a.hasFlag("w"))
	if err == nil {
		s.screen.printStat(stat)
	}
	return err
}

func (s *Shell) listNode(ctx context.Context, a *arguments) error {
	path, watch := a.path(), a.hasFlag("w")
	if a.hasFlag("R") {
		return s.nodes.visitSubtree(ctx, path, watch, func(path string) error {
			s.screen.print(path + "\n")
			return nil
		})
	}
	names, stat, err := s.nodes.listChildren(ctx, path, watch)
	if err != nil {
		return err
	}
	s.screen.print("[" + strings.Join(names, ", ") + "]\n")
	if a.hasFlag("s") {
		s.screen.printStat(stat)
	}
	return nil
}

const errPartlyDeleted = zkCliError("Failed to delete some node(s) in the subtree!")

// deleteAll deletes a node and all below it, those deepest in the tree first. It lists all before it
// deletes any, so that a node that it may not see keeps the others, too.
func (s *Shell) deleteAll(ctx context.Context, a *arguments) error {
	batch, err := a.intFlag("b", 32, deleteBatch)
	if err != nil {
		return err
	}
	all := []string{a.path()}
	for i := 0; i < len(all); i++ {
		names, _, err := s.nodes.listChildren(ctx, all[i], false)
		if err != nil {
			return err
		}
		for _, name := range names {
			all = append(all, joinPath(all[i], name))
		}
	}
	if batch <= 0 {
		batch = int64(len(all))
	}
	slices.Reverse(all)
	for some := range slices.Chunk(all, int(batch)) {
		if err := s.deleteInMulti(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// deleteInMulti deletes all nodes or none.
func (s *Shell) deleteInMulti(ctx context.Context, paths []string) error {
	ops := make(client.MultiRequest, len(paths))
	for i, path := range paths {
		ops[i] = jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(s.session.space.FullPath(path)), Version: -1}}
	}
	var answer client.MultiResponse
	err := s.session.sendRequest(ctx, jute.OpMulti, paths[0], ops, &answer)
	refused := slices.ContainsFunc(answer.Results, func(r client.MultiResult) bool { return r.Op == jute.OpError })
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil || refused {
		return errPartlyDeleted
	}
	return nil
}

func (s *Shell) syncNode(ctx context.Context, a *arguments) error {
	path := a.path()
	if err := checkPath(path); err != nil {
		return err
	}
	err := s.session.sendRequest(ctx, jute.OpSync, path, jute.SyncRequest{Path: []byte(s.session.space.FullPath(path))}, nil)
	if f, ok := errors.AsType[*requestError](err); ok {
		s.screen.printf("Sync has failed. rc=%d", f.code)
		return nil
	}
	if err == nil {
		s.screen.print("Sync is OK\n")
	}
	return err
}

func (s *Shell) getAllChildrenNumber(ctx context.Context, a *arguments) error {
	path := a.path()
	if err := checkPath(path); err != nil {
		return err
	}
	var got jute.GetAllChildrenNumberResponse
	rec := jute.GetAllChildrenNumberRequest{Path: []byte(s.session.space.FullPath(path))}
	if err := s.session.sendRequest(ctx, jute.OpGetAllChildrenNumber, path, rec, &got); err != nil {
		return err
	}
	s.screen.printf("%d", got.TotalNumber)
	return nil
}

// getEphemerals prints the ephemeral nodes of this session. zkCli.sh prints their paths in the tree,
// also if the shell's / is another node.
func (s *Shell) getEphemerals(ctx context.Context, a *arguments) error {
	path := "/"
	if len(a.words) > 1 {
		path = a.path()
	}
	if err := checkPath(path); err != nil {
		return err
	}
	var got jute.GetEphemeralsResponse
	if err := s.session.sendRequest(ctx, jute.OpGetEphemerals, path, jute.GetEphemeralsRequest{Path: []byte(s.session.space.FullPath(path))}, &got); err != nil {
		return err
	}
	paths := make([]string, len(got.Ephemerals))
	for i, p := range got.Ephemerals {
		paths[i] = string(p)
	}
	s.screen.print("[" + strings.Join(paths, ", ") + "]\n")
	return nil
}

// javaTimeLayout is the layout of times, which are in this machine's time zone.
const javaTimeLayout = "Mon Jan 02 15:04:05 MST 2006"

func (s *screen) printStat(stat jute.Stat) {
	at := func(ms int64) string { return time.UnixMilli(ms).Format(javaTimeLayout) }
	s.print(fmt.Sprintf("cZxid = 0x%x\nctime = %s\nmZxid = 0x%x\nmtime = %s\npZxid = 0x%x\n",
		uint64(stat.Czxid), at(stat.Ctime), uint64(stat.Mzxid), at(stat.Mtime), uint64(stat.Pzxid)) +
		fmt.Sprintf("cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = 0x%x\ndataLength = %d\nnumChildren = %d\n",
			stat.Cversion, stat.Version, stat.Aversion, uint64(stat.EphemeralOwner), stat.DataLength, stat.NumChildren))
}
