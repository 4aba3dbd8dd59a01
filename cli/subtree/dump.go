package subtree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Dumping says what a dump contains.
type Dumping struct {
	Ephemerals bool                   // ephemeral nodes too. They are shown; no load makes them
	Now        time.Time              // is in the document
	Warn       func(path, why string) // is called with each node of which something is missing
	Each       func(*Record)          // is called with each node that is written
}

// These are the reasons for warnings of a dump.
const (
	noRead    = "it may not be read, and is missing with all below it"
	noDigests = "its access control list has digests that only its administrators see"
)

// ErrEphemeral says that the top of a dump is an ephemeral node, which the dump would leave out.
var ErrEphemeral = errors.New("is an ephemeral node, which a dump leaves out")

// Dump writes the subtree at top as a JSON document. It returns when all is written, or with the error
// that ended it: then the document is not whole, and Check refuses it. A node that vanishes meanwhile is
// left out. One that may not be read is left out with a warning.
func (s Space) Dump(ctx context.Context, w io.Writer, top string, how Dumping) (Summary, error) {
	d := &dumper{space: s, out: bufio.NewWriterSize(w, 64<<10), sum: newChecksum(), how: how}
	d.summary = Summary{Format: dumpFormat, Version: dumpVersion, Path: top, Created: how.Now.UTC().Truncate(time.Millisecond)}
	begun, err := s.Sync(ctx, top)
	if err != nil {
		return d.summary, fmt.Errorf("sync: %w", err)
	}
	d.begun = begun
	skip := s.Own
	if top == Servers {
		skip = nil
	}
	for n, err := range s.Walk(ctx, top, Walking{Whole: true, Skip: skip}) {
		if err == nil {
			err = ctx.Err() // Walk may still yield answers to requests that were under way
		}
		if err == nil {
			err = d.add(n)
		}
		if err != nil {
			return d.summary, errors.Join(err, d.out.Flush())
		}
	}
	return d.summary, d.tail()
}

// dumper is one dump.
type dumper struct {
	space   Space
	out     *bufio.Writer
	sum     *checksum
	how     Dumping
	begun   int64 // zxid
	summary Summary
}

func (d *dumper) head() error {
	path, err := encode(d.summary.Path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out, `{"format":%q,"version":%d,"path":%s,"created":%q,"nodes":[`,
		d.summary.Format, d.summary.Version, path, d.summary.Created.Format(time.RFC3339Nano))
	return err
}

func (d *dumper) tail() error {
	s := &d.summary
	s.SHA256 = d.sum.String()
	_, err := fmt.Fprintf(d.out, "\n"+`],"count":%d,"ephemerals":%d,"left_out":%d,"unread":%d,"hidden":%d,"newer":%d,"sha256":%q}`+"\n",
		s.Count, s.Ephemerals, s.LeftOut, s.Unread, s.Hidden, s.Newer, s.SHA256)
	return errors.Join(err, d.out.Flush())
}

// add writes a node, unless something is in the way that is only worth a warning.
func (d *dumper) add(n *Node) error {
	s := &d.summary
	r := Record{Path: n.Path, Data: n.Data, ACL: n.ACL}
	if n.Err == nil && n.Stat.EphemeralOwner != 0 {
		if !d.how.Ephemerals {
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
			return &client.Error{Op: jute.OpGetData, Path: d.space.Full(n.Path), Err: n.Err}
		}
		s.Unread++
		d.how.Warn(n.Path, noRead)
		return nil
	}
	text, err := r.MarshalJSON()
	if err != nil {
		return err
	}
	if hidden(r.ACL) {
		s.Hidden++
		d.how.Warn(n.Path, noDigests)
	}
	if max(n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Pzxid) > d.begun {
		s.Newer++
	}
	if s.Count == 0 {
		err = d.head() // not before: if the top cannot be read, nothing is written
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
	d.sum.add(&r)
	d.how.Each(&r)
	return err
}
