package trials

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// kinds are the kinds of files in a data folder, with a pattern for each; which file of a kind is
// damaged is drawn.
var kinds = []struct {
	name  string
	is    func(path string) bool
	store string // only with this log store; "": with any
	last  bool   // the last one of that kind
	part  string // what it is a part of, by its path from the file's folder: a refusal may name that instead; "": nothing
	ends  []end  // that its trials come to
	// certain is what the trials of each kind of damage, in the order of harms, come to whatever was
	// drawn: f a refusal, r the right data, b both, because alone and with others are not the same.
	// A dash: that depends on which bytes or which file were drawn.
	certain string
}{
	{"identity", base("identity.json"), "", false, "", both, "fffffbf"},
	{"lock", base("lock"), "", false, "", []end{right}, "rrrrrrr"}, // what is in it counts for nothing
	{"number of the member", base("myid"), "", false, "", both, "fff-rbb"},
	{"term and votes", base("raft.db"), "wal", false, "", both, "----r-f"},
	{"log, term and votes", base("raft.db"), "boltdb", false, "", both, "----rff"},
	{"mark of raft.db", base("raft.durable"), "", false, "raft.db", both, "fffff-r"},
	{"list of segments", base("wal-meta.db"), "wal", false, ".", both, "----rff"},
	{"mark of the segments", base("durable"), "wal", false, ".", both, "fffff-r"},
	{"segment", suffix(".wal"), "wal", false, ".", both, "----r-f"},
	{"last segment", suffix(".wal"), "wal", true, ".", both, "---fr-f"},
	{"snapshot", base("state.bin"), "", false, ".", both, "-------"}, // the older one is not needed
	{"metadata of a snapshot", base("meta.json"), "", false, ".", both, "-------"},
}

// end is what a trial may end with.
type end string

const (
	right   end = "right"   // all data are there, and no other
	refused end = "refused" // the member says which file is damaged and what to do
)

var both = []end{right, refused}

// certainEnds are the ends that a letter in certain stands for.
var certainEnds = map[byte][]end{'f': {refused}, 'r': {right}, 'b': both, '-': nil}

func base(name string) func(string) bool {
	return func(path string) bool { return filepath.Base(path) == name }
}

func suffix(s string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, s) }
}

// harms are the kinds of damage. Each returns what is left of a file, and false if it is gone.
// other is the same file of another member, or what comes next to it. The trials of each kind come
// to both ends: each hits bytes, or a file, that the member can do without.
var harms = []struct {
	name string
	do   func(rng *rand.Rand, f, other file) (file, bool)
}{
	{"bits flipped", func(rng *rand.Rand, f, _ file) (file, bool) {
		b := f.bytes()
		for range 1 + rng.IntN(4) {
			if len(b) > 0 {
				b[somewhere(rng, f)] ^= 1 << rng.IntN(8)
			}
		}
		return fileOf(b), true
	}},
	{"bytes zeroed", func(rng *rand.Rand, f, _ file) (file, bool) {
		b := f.bytes()
		if len(b) > 0 {
			at := somewhere(rng, f)
			clear(b[at:min(len(b), at+1+rng.IntN(1+rng.IntN(64<<10)))])
		}
		return fileOf(b), true
	}},
	{"a sector zeroed", func(rng *rand.Rand, f, _ file) (file, bool) {
		b := f.bytes()
		if len(b) > 0 {
			const sector = 512
			at := somewhere(rng, f) / sector * sector
			clear(b[at:min(len(b), at+sector*(1+rng.IntN(8)))])
		}
		return fileOf(b), true
	}},
	{"truncated", func(rng *rand.Rand, f, _ file) (file, bool) {
		if f.size == 0 {
			return f, true
		}
		return fileOf(f.bytes()[:somewhere(rng, f)]), true
	}},
	{"extended", func(rng *rand.Rand, f, _ file) (file, bool) {
		more := make([]byte, 1+rng.IntN(8<<10))
		if rng.IntN(2) == 0 {
			for i := range more {
				more[i] = byte(rng.Uint32())
			}
		}
		return fileOf(append(f.bytes(), more...)), true
	}},
	{"swapped", func(_ *rand.Rand, _, other file) (file, bool) { return other, true }},
	{"deleted", func(*rand.Rand, file, file) (file, bool) { return file{}, false }},
}

// somewhere draws a place in a file, seldom behind its last byte that is not zero.
func somewhere(rng *rand.Rand, f file) int {
	if len(f.data) > 0 && rng.IntN(10) > 0 {
		return rng.IntN(len(f.data))
	}
	return rng.IntN(f.size)
}

// harm is the damage of one trial.
type harm struct {
	kind, name string
	path       string // of the file, below the folder
	part       string // of what it is a part, below the folder; "": of nothing
}

// names reports whether text names the damaged file in a member's folder, or what it is a part of.
func (h harm) names(text, folder string) bool {
	return strings.Contains(text, filepath.Join(folder, h.path)) || h.part != "" && strings.Contains(text, filepath.Join(folder, h.part))
}

func (h harm) String() string { return fmt.Sprintf("%s, %s (%s)", h.name, h.kind, h.path) }

// like returns the file of that path, or else one with the same ending.
func (i image) like(rng *rand.Rand, path string) file {
	if f, ok := i[path]; ok {
		return f
	}
	var alike []string
	for _, name := range i.names() {
		if filepath.Ext(name) == filepath.Ext(path) && (filepath.Base(name) == filepath.Base(path) || filepath.Ext(path) == ".wal") {
			alike = append(alike, name)
		}
	}
	if len(alike) == 0 {
		return file{}
	}
	return i[alike[rng.IntN(len(alike))]]
}

// clone returns a copy that shares the files' bytes, which nobody changes.
func (i image) clone() image { return maps.Clone(i) }
