package shell

import (
	"context"
	"errors"
	"fmt"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

// deleteBatch is the default of deleteall -b: how many nodes one request deletes.
const deleteBatch = 1000

func (s *Shell) createNode(ctx context.Context, a *arguments) error {
	mode, err := createMode(a)
	if err != nil {
		return err
	}
	path, acl := a.path(), anyoneAll
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
	made, err := s.session.createNode(ctx, path, data, acl, mode)
	if f, ok := errors.AsType[*requestError](err); ok && f.code == jute.InvalidACL {
		s.screen.printMessage(errorStyle, f.javaMessage())
	}
	if err == nil {
		s.screen.printMessage(plainStyle, "Created "+s.screen.name(made))
	}
	return err
}

// createMode returns the mode for the flags of create.
func createMode(a *arguments) (client.Mode, error) {
	ephemeral, sequential, container, limited := a.hasFlag("e"), a.hasFlag("s"), a.hasFlag("c"), a.hasFlag("t")
	if container && (ephemeral || sequential) {
		return client.Mode{}, zkCliError("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	}
	ttl, err := a.intFlag("t", 64, 0)
	if err != nil {
		return client.Mode{}, err
	}
	life := time.Duration(ttl) * time.Millisecond
	switch {
	case limited && ephemeral:
		return client.Mode{}, zkCliError("TTLs cannot be used with Ephemeral znodes")
	case limited && container:
		return client.Mode{}, zkCliError("TTLs cannot be used with Container znodes")
	case limited && (ttl <= 0 || ttl > jute.MaxTTL):
		return client.Mode{}, zkCliError(fmt.Sprintf("ttl must be positive and cannot be larger than: %d", int64(jute.MaxTTL)))
	}
	return nodes.Mode(ephemeral, sequential, container, life), nil
}

func (s *Shell) getNode(ctx context.Context, a *arguments) error {
	data, stat, err := s.session.getData(ctx, a.path(), a.hasFlag("w"))
	if err != nil {
		return err
	}
	s.screen.print(s.screen.data(textOrNull(data)) + "\n")
	s.screen.printStatIf(a.hasFlag("s"), stat)
	return nil
}

// textOrNull returns data as text, or "null".
func textOrNull(data []byte) string {
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
	stat, err := s.session.setData(ctx, a.path(), []byte(a.words[2]), version)
	s.screen.printStatIf(err == nil && a.hasFlag("s"), stat)
	return err
}

func (s *Shell) deleteNode(ctx context.Context, a *arguments) error {
	version, err := a.expectedVersion()
	if err != nil {
		return err
	}
	return s.session.deleteNode(ctx, a.path(), version)
}

func (s *Shell) statNode(ctx context.Context, a *arguments) error {
	stat, err := s.session.statNode(ctx, a.path(), a.hasFlag("w"))
	s.screen.printStatIf(err == nil, stat)
	return err
}

func (s *Shell) listNode(ctx context.Context, a *arguments) error {
	path, watch := a.path(), a.hasFlag("w")
	if a.hasFlag("R") {
		return s.session.visitSubtree(ctx, path, watch, func(path string) error {
			s.screen.print(s.screen.name(path) + "\n")
			return nil
		})
	}
	names, stat, err := s.session.listChildren(ctx, path, watch)
	if err != nil {
		return err
	}
	s.screen.print(s.screen.names(names))
	s.screen.printStatIf(a.hasFlag("s"), stat)
	return nil
}

const errPartlyDeleted = zkCliError("Failed to delete some node(s) in the subtree!")

// deleteAll deletes a subtree, deepest nodes first. It lists all nodes first, so that an unreadable node
// leaves the others in place.
func (s *Shell) deleteAll(ctx context.Context, a *arguments) error {
	batch, err := a.intFlag("b", 32, deleteBatch)
	if err != nil {
		return err
	}
	all := []string{a.path()}
	for i := 0; i < len(all); i++ {
		names, _, err := s.session.listChildren(ctx, all[i], false)
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

func (s *Shell) deleteInMulti(ctx context.Context, paths []string) error {
	ops := make([]client.Operation, len(paths))
	for i, path := range paths {
		ops[i] = client.DeleteOp(s.session.space.FullPath(path), client.AnyVersion)
	}
	err := s.session.sendWhenConnected(ctx, paths[0], func(ctx context.Context, space nodes.Space) error { return space.Multi(ctx, ops) })
	if err != nil && !errors.Is(err, errInterrupted) {
		return errPartlyDeleted
	}
	return err
}

func (s *Shell) syncNode(ctx context.Context, a *arguments) error {
	path := a.path()
	err := s.session.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) error {
		_, err := space.Sync(ctx, path)
		return err
	})
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
	var count int
	err := s.session.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) (err error) {
		count, err = space.Client.CountBelow(ctx, space.FullPath(path))
		return err
	})
	if err != nil {
		return err
	}
	s.screen.printf("%d", count)
	return nil
}

// getEphemerals prints this session's ephemeral nodes whose paths begin with the text that was given. Like zkCli.sh, it prints
// full paths even if the shell has a root.
func (s *Shell) getEphemerals(ctx context.Context, a *arguments) error {
	path := "/"
	if len(a.words) > 1 {
		path = a.path()
	}
	var paths []string
	err := s.session.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) (err error) {
		full := space.FullPath(path)
		paths, err = space.Client.Ephemerals(ctx, pathpkg.Dir(full)) // at nodes and below them
		paths = slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, full) })
		return err
	})
	if err != nil {
		return err
	}
	s.screen.print(s.screen.names(paths))
	return nil
}

// javaTimeLayout is for times in this machine's time zone.
const javaTimeLayout = "Mon Jan 02 15:04:05 MST 2006"

func (s *screen) printStatIf(asked bool, stat jute.Stat) {
	if !asked {
		return
	}
	at := func(ms int64) string { return time.UnixMilli(ms).Format(javaTimeLayout) }
	s.print(fmt.Sprintf("cZxid = 0x%x\nctime = %s\nmZxid = 0x%x\nmtime = %s\npZxid = 0x%x\n",
		uint64(stat.Czxid), at(stat.Ctime), uint64(stat.Mzxid), at(stat.Mtime), uint64(stat.Pzxid)) +
		fmt.Sprintf("cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = 0x%x\ndataLength = "+
			"%d\nnumChildren = %d\n",
			stat.Cversion, stat.Version, stat.Aversion, uint64(stat.EphemeralOwner), stat.DataLength, stat.NumChildren))
}
