package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// change is a recorded change of files. Files and directories have numbers, which are never used again.
type change struct {
	disk int // of which disk; disks have numbers
	kind kind

	on         int    // the file, or the directory whose names change; of a format the root
	name       string // in the directory
	node       int    // what name stands for from now on
	directory  bool   // make: node is a directory
	from       string // rename, move: the name before, in the same directory, or in source
	source     int    // move: the directory before
	at         int64  // write: the first byte
	data       []byte // write
	size       int64  // resize, grow
	everything files  // format: what the disk holds, and keeps
}

type kind int

const (
	format kind = iota // the disk is another one, or has been changed while no process ran
	makes              // a file or directory, under a name
	link               // another name
	remove             // a name
	rename
	move // to another directory
	write
	resize // to a size, which may be smaller
	grow   // to a size, unless the file has it already
	sync   // name is the path of the file or directory, relative to the root
	nothing
)

func (k kind) String() string {
	return []string{"format", "make", "link", "remove", "rename", "move", "write", "resize", "grow", "sync", "nothing"}[k]
}

// volume is a disk after a prefix of the changes that were recorded.
type volume struct {
	root  int
	nodes map[int]*node
}

// node is a file or a directory.
type node struct {
	directory bool
	file      content        // as it was at the last sync
	names     map[string]int // the same of a directory
	since     []pending      // the changes since
}

// pending is a change that may be lost. place is its place among the changes of all disks.
type pending struct {
	change
	place int
}

// content is the contents of a file. Bytes from len(data) to size are zeros, and later ones do not count.
type content struct {
	data []byte
	size int64
}

// after returns a disk after the first n changes.
func after(changes []change, n, disk int) *volume {
	v := &volume{}
	for i, c := range changes[:n] {
		if c.disk == disk {
			v.apply(c, i)
		}
	}
	return v
}

func (v *volume) apply(c change, place int) {
	switch c.kind {
	case format:
		v.root, v.nodes = c.on, map[int]*node{c.on: {directory: true, names: map[string]int{}}}
		for _, f := range c.everything {
			v.nodes[f.node] = &node{directory: f.directory, file: content{slices.Clone(f.data), f.size}, names: map[string]int{}} // a sync writes into it
			v.nodes[f.parent].names[f.name] = f.node
		}
		return
	case makes:
		v.nodes[c.node] = &node{directory: c.directory, names: map[string]int{}}
	case sync:
		v.sync(c.on)
		return
	case nothing:
		return
	}
	v.nodes[c.on].since = append(v.nodes[c.on].since, pending{c, place})
	if c.kind == move {
		gone := change{disk: c.disk, kind: remove, on: c.source, name: c.from, source: c.on}
		v.nodes[c.source].since = append(v.nodes[c.source].since, pending{gone, place})
	}
}

// sync keeps what a file or a directory has now. A name that was moved from or to another directory is moved on the disk then, with the
// other names there.
func (v *volume) sync(number int) {
	n := v.nodes[number]
	moved := n.since
	n.file, n.names, n.since = contentAfter(n.file, n.since, whole{}), n.namesKept(whole{}), nil
	for _, p := range moved {
		if p.source != 0 && len(v.nodes[p.source].since) > 0 {
			v.sync(p.source)
		}
	}
}

// loss decides which changes survive a loss of power.
type loss interface {
	keepsName(place int) bool
	keepsSize(place int, from, to int64) int64 // a size between them
	keepsSector(place int) bool
	sector() int64
}

// whole is the loss of nothing.
type whole struct{}

func (whole) keepsName(int) bool                 { return true }
func (whole) keepsSize(_ int, _, to int64) int64 { return to }
func (whole) keepsSector(int) bool               { return true }
func (whole) sector() int64                      { return 4096 }

func (n *node) namesKept(l loss) map[string]int { return namesAfter(n.names, n.since, l) }

func (n *node) kept(l loss) content {
	if len(n.since) == 0 {
		return n.file
	}
	return contentAfter(content{slices.Clone(n.file.data), n.file.size}, n.since, l)
}

// namesAfter returns the names of a directory if l keeps what it keeps of the changes since.
func namesAfter(names map[string]int, since []pending, l loss) map[string]int {
	left := map[string]int{}
	for name, node := range names {
		left[name] = node
	}
	for _, p := range since {
		if !l.keepsName(p.place) {
			continue
		}
		if p.kind == remove {
			delete(left, p.name)
			continue
		}
		left[p.name] = p.node
		if p.kind == rename {
			delete(left, p.from)
		}
	}
	return left
}

// contentAfter returns the content of a file if l keeps what it keeps of the changes since. It may write into the content before.
func contentAfter(after content, since []pending, l loss) content {
	for _, p := range since {
		switch p.kind {
		case write:
			after.write(p, l)
		case grow:
			if p.size > after.size {
				after.size = l.keepsSize(p.place, after.size, p.size)
			}
		case resize:
			if p.size >= after.size {
				after.size = l.keepsSize(p.place, after.size, p.size)
			} else if l.keepsSize(p.place, after.size, p.size) == p.size {
				after.data, after.size = after.data[:min(p.size, int64(len(after.data)))], p.size
			}
		}
	}
	return after
}

// write writes the sectors that l keeps.
func (c *content) write(p pending, l loss) {
	end := p.at + int64(len(p.data))
	for from := p.at; from < end; {
		to := min(end, (from/l.sector()+1)*l.sector())
		if l.keepsSector(p.place) {
			if more := to - int64(len(c.data)); more > 0 {
				c.data = append(c.data, make([]byte, more)...)
			}
			copy(c.data[from:to], p.data[from-p.at:to-p.at])
		}
		from = to
	}
	if end > c.size {
		c.size = l.keepsSize(p.place, c.size, end)
	}
}

// cut returns the files that l leaves.
func (v *volume) cut(l loss) files {
	var left files
	v.collect(v.root, l, &left, map[int]bool{})
	return left
}

func (v *volume) collect(directory int, l loss, left *files, seen map[int]bool) {
	names := v.nodes[directory].namesKept(l)
	for _, name := range sortedKeys(names) {
		id := names[name]
		n := v.nodes[id]
		if n.directory && seen[id] {
			continue // a directory has one name
		}
		seen[id] = true
		*left = append(*left, file{parent: directory, node: id, name: name, directory: n.directory, content: n.kept(l)})
		if n.directory {
			v.collect(id, l, left, seen)
		}
	}
}

// files are the content of a directory: a directory comes before its entries. An entry that is another name of a file
// looks like a copy.
type files []file

type file struct {
	parent, node int // numbers
	name         string
	directory    bool
	content
}

// put makes dir hold exactly these files. root is the number of dir.
func (fs files) put(dir string, root int) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	paths := map[int]string{root: dir}
	for _, f := range fs {
		path := filepath.Join(paths[f.parent], f.name)
		if f.directory {
			paths[f.node] = path
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, f.data[:min(f.size, int64(len(f.data)))], 0o600); err != nil {
			return err
		}
		if err := os.Truncate(path, f.size); err != nil {
			return err
		}
	}
	return nil
}

// outage is a loss of power of a certain kind, with its chances.
type outage struct {
	rng                   *rand.Rand
	names, sizes, sectors int // of 4: how many are kept, on average
	until                 int // the changes before this place are kept; 0: none is kept because of its place
	size                  int64
	drawn                 map[int]bool // whether the names of a change are kept: in two directories if it is a move
}

// kinds is the number of seeds in a row that have outages of different kinds: five of a kind of their own, and random
// ones.
const kinds = 8

// newOutage returns the outage of a seed after n changes.
func newOutage(seed uint64, n int) *outage {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := &outage{rng: rng, size: []int64{512, 4096}[rng.IntN(2)], drawn: map[int]bool{}}
	switch seed % kinds {
	case 0: // nothing is kept
	case 1: // names, but no bytes
		o.names, o.sizes = 4, 4
	case 2: // bytes, but no names
		o.sizes, o.sectors = 4, 4
	case 3: // in the order in which it was done, up to some place
		o.until = n - min(n, rng.IntN(1+rng.IntN(200)))
		o.sectors = 2
	case 4: // sizes alone
		o.sizes = 4
	default:
		o.names, o.sizes, o.sectors = rng.IntN(5), rng.IntN(5), rng.IntN(5)
	}
	return o
}

func (o *outage) String() string {
	return fmt.Sprintf("keeps %d/4 of the names, %d/4 of the sizes, %d/4 of the sectors of %d bytes, and all before change %d", o.names, o.sizes, o.sectors, o.size, o.until)
}

func (o *outage) keeps(place, of4 int) bool { return place < o.until || o.rng.IntN(4) < of4 }

func (o *outage) keepsName(place int) bool {
	if _, drawn := o.drawn[place]; !drawn {
		o.drawn[place] = o.keeps(place, o.names)
	}
	return o.drawn[place]
}

func (o *outage) keepsSector(place int) bool { return o.keeps(place, o.sectors) }
func (o *outage) sector() int64              { return o.size }

func (o *outage) keepsSize(place int, from, to int64) int64 {
	switch {
	case o.keeps(place, o.sizes):
		return to
	case to > from && o.sizes > 0 && o.sizes < 4 && o.rng.IntN(2) == 0: // to a sector's end on the way
		return min(to, (from+o.rng.Int64N(to-from))/o.size*o.size+o.size)
	}
	return from
}
