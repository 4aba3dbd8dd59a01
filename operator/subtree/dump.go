package subtree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// DumpOptions select the content of a dump.
type DumpOptions struct {
	IncludeEphemerals bool                   // ephemeral nodes too. They are shown; no load makes them
	Now               time.Time              // is in the document
	BeginZxid         int64                  // later changes are counted as newer. The server must have applied it
	OnWarning         func(path, why string) // is called with each node of which something is missing
	OnRecord          func(*Record)          // is called with each node that is written
}

// The reasons of warnings.
const (
	reasonUnreadable    = "it may not be read, and is missing with all below it"
	reasonHiddenDigests = "its access control list has digests that only its administrators see"
)

// ErrEphemeral is the error of a dump whose top is an ephemeral node, which it would leave out.
var ErrEphemeral = errors.New("is an ephemeral node, which a dump leaves out")

// Dump writes the subtree at top as a JSON document. After an error the document is incomplete, and CheckDump
// rejects it. A node that vanishes meanwhile is left out, and so is an unreadable one, with a warning.
func (s Space) Dump(ctx context.Context, w io.Writer, top string, how DumpOptions) (Summary, error) {
	d := &dumper{out: bufio.NewWriterSize(w, 64<<10), sum: newChecksum(), options: how}
	d.summary = Summary{
		Format: dumpFormat, Version: dumpVersion, Path: top,
		Created: how.Now.UTC().Truncate(time.Millisecond),
	}
	skip := s.IsServersNode
	if top == ServersNode {
		skip = nil
	}
	for n, err := range s.Walk(ctx, top, WalkOptions{ReadContent: true, Skip: skip}) {
		if err == nil {
			err = ctx.Err() // Walk may still yield replies to earlier requests
		}
		if err == nil {
			err = d.writeOrSkipNode(n)
		}
		if err != nil {
			return d.summary, errors.Join(err, d.out.Flush())
		}
	}
	return d.summary, d.writeTail()
}

type dumper struct {
	out     *bufio.Writer
	sum     *checksum
	options DumpOptions
	summary Summary
}

func (d *dumper) writeHead() error {
	path, err := encodeJSON(d.summary.Path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out, `{"format":%q,"version":%d,"path":%s,"created":%q,"nodes":[`,
		d.summary.Format, d.summary.Version, path, d.summary.Created.Format(time.RFC3339Nano))
	return err
}

func (d *dumper) writeTail() error {
	s := &d.summary
	s.SHA256 = d.sum.String()
	_, err := fmt.Fprintf(d.out, "\n"+
		`],"count":%d,"ephemerals":%d,"left_out":%d,"unread":%d,"hidden":%d,"newer":%d,"sha256":%q}`+"\n",
		s.Count, s.Ephemerals, s.LeftOut, s.Unread, s.Hidden, s.Newer, s.SHA256)
	return errors.Join(err, d.out.Flush())
}

// writeOrSkipNode writes a node, or warns and leaves it out.
func (d *dumper) writeOrSkipNode(n *Node) error {
	s := &d.summary
	r := Record{Path: n.Path, Data: n.Data, ACL: n.ACL}
	if n.Err == nil && n.Stat.EphemeralOwner != 0 {
		if !d.options.IncludeEphemerals {
			if n.Depth == 0 {
				return fmt.Errorf("%s %w", n.Path, ErrEphemeral)
			}
			s.LeftOut++
			return nil
		}
		s.Ephemerals++
		r.Owner = n.Stat.EphemeralOwner.String()
	}
	if n.Err != nil {
		if n.Depth == 0 {
			return n.Err
		}
		s.Unread++
		d.options.OnWarning(n.Path, reasonUnreadable)
		return nil
	}
	text, err := r.MarshalJSON()
	if err != nil {
		return err
	}
	if hasHiddenDigest(r.ACL) {
		s.Hidden++
		d.options.OnWarning(n.Path, reasonHiddenDigests)
	}
	if max(n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Pzxid) > d.options.BeginZxid {
		s.Newer++
	}
	if s.Count == 0 {
		err = d.writeHead() // not before: if the top cannot be read, nothing is written
	} else {
		err = d.out.WriteByte(',')
	}
	if err != nil {
		return err
	}
	_ = d.out.WriteByte('\n') // a bufio.Writer keeps its error for the next call
	_, err = d.out.Write(text)
	s.Count++
	s.Bytes += int64(len(r.Data))
	d.sum.addRecord(&r)
	d.options.OnRecord(&r)
	return err
}
