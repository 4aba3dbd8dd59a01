package shell

import (
	"context"
	"errors"
	"strings"

	"rollcall/cli/nodes"
	"rollcall/zk/jute"
)

// anyoneAll is the list of a node that everyone may do everything with.
var anyoneAll = jute.OpenACL

// parseACL parses "scheme:id:perms,…". An id may contain colons. Like zkCli.sh, it reports a malformed entry
// and skips it.
func (s *Shell) parseACL(text string) (acl []jute.ACL) {
	entries := strings.TrimRight(text, ",")
	if entries == "" && text != "" {
		return nil
	}
	for entry := range strings.SplitSeq(entries, ",") {
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		if first == last {
			s.screen.printMessage(errorStyle, entry+" does not have the form scheme:id:perm")
			continue
		}
		acl = append(acl, jute.ACL{
			Perms: s.parsePermissions(entry[last+1:]),
			ID:    jute.ID{Scheme: []byte(entry[:first]), ID: []byte(entry[first+1 : last])},
		})
	}
	return acl
}

func (s *Shell) parsePermissions(letters string) (perms jute.Perm) {
	for _, letter := range letters {
		perm, err := jute.ParsePerms(string(letter))
		if err != nil {
			s.screen.printMessage(errorStyle, "Unknown perm type: "+string(letter))
		}
		perms |= perm
	}
	return perms
}

func (s *Shell) getACL(ctx context.Context, a *arguments) error {
	path := a.path()
	var acl []jute.ACL
	var stat jute.Stat
	err := s.session.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) (err error) {
		acl, stat, err = space.ACLAndStat(ctx, path)
		return err
	})
	if err != nil {
		return err
	}
	for _, entry := range acl {
		s.screen.printf("'%s,'%s\n: %s", s.screen.name(string(entry.ID.Scheme)), s.screen.name(string(entry.ID.ID)), entry.Perms.Letters())
	}
	s.screen.printStatIf(a.hasFlag("s"), stat)
	return nil
}

func (s *Shell) setACL(ctx context.Context, a *arguments) error {
	acl := s.parseACL(a.words[2])
	version, err := a.expectedVersion()
	if err != nil {
		return err
	}
	if a.hasFlag("R") {
		return s.session.visitSubtree(ctx, a.path(), false, func(path string) error {
			_, err := s.session.setACL(ctx, path, acl, version)
			if f, ok := errors.AsType[*requestError](err); ok { // zkCli.sh continues, and ends no line
				s.screen.print(f.javaMessage())
				return nil
			}
			return err
		})
	}
	stat, err := s.session.setACL(ctx, a.path(), acl, version)
	s.screen.printStatIf(err == nil && a.hasFlag("s"), stat)
	return err
}
