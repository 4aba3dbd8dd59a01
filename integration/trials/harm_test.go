package trials

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// kinds are the kinds of files in a data directory. A trial damages one file of its kind, which it draws
// at random.
var kinds = []struct {
	name string
	is   func(path string) bool
	last bool // only the last file of that kind is damaged
	// part is the path of what the file belongs to, relative to the file's directory. A refusal may name
	// that path instead of the file. "" means that there is none.
	part string
	ends []end // the ends that its trials come to
	// certain has a letter for each kind of damage, in the order of harms: the ends that must occur.
	// f is a refusal and r is the right data. b is both, because a single member ends differently from
	// several. A dash means that the end depends on which bytes or which file were drawn.
	certain string
}{
	{"identity", base("identity.json"), false, "", both, "fffffbf"},
	{"lock", base("lock"), false, "", []end{right}, "rrrrrrr"}, // its content does not matter
	{"number of the member", base("myid"), false, "", both, "fff-rbb"},
	{"term and votes", base("raft.db"), false, "", both, "----r-f"},
	{"mark of raft.db", base("raft.durable"), false, "raft.db", []end{refused}, "fffff-f"},
	{"mark of the segments", base("durable"), false, ".", []end{refused}, "fffff-f"},
	{"mark of the log in the data directory", base("log.durable"), false, ".", []end{refused}, "fffffff"},
	{"segment", suffix(".log"), false, ".", both, "---ffff"},
	{"last segment", suffix(".log"), true, ".", both, "---ffff"},
	{"snapshot", base("state.bin"), false, ".", both, "-------"}, // the older one is not needed
	{"metadata of a snapshot", base("meta.json"), false, ".", both, "-------"},
}

// end is the end that a trial may come to.
type end string

const (
	right   end = "right"   // all data are there, and nothing else
	refused end = "refused" // the member says which file is damaged and what to do
)

var both = []end{right, refused}

// certainEnds lists the ends for each letter in certain.
var certainEnds = map[byte][]end{'f': {refused}, 'r': {right}, 'b': both, '-': nil}

func base(name string) func(string) bool {
	return func(path string) bool { return filepath.Base(path) == name }
}

func suffix(s string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, s) }
}

// harms are the kinds of damage. Each returns the rest of a file, and false if the file is gone. other is the same file
// of another member, or the most similar one. The trials of each kind come to both ends: some hit bytes, or a file, that
// the member does not need.
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

// somewhere returns a random position in a file, seldom after its last byte that is not zero.
func somewhere(rng *rand.Rand, f file) int {
	if len(f.data) > 0 && rng.IntN(10) > 0 {
		return rng.IntN(len(f.data))
	}
	return rng.IntN(f.size)
}

// harm is the damage of one trial.
type harm struct {
	kind, name string
	path       string // of the file, relative to the directory
	part       string // of the thing that the file is a part of, relative to the directory; "": none
}

// names reports whether text names the damaged file in a member's directory, or the thing that it is a
// part of.
func (h harm) names(text, directory string) bool {
	return strings.Contains(text, filepath.Join(directory, h.path)) || h.part != "" && strings.Contains(text, filepath.Join(directory, h.part))
}

func (h harm) String() string { return fmt.Sprintf("%s, %s (%s)", h.name, h.kind, h.path) }

// like returns the file at that path, or else one with the same extension.
func (i image) like(rng *rand.Rand, path string) file {
	if f, ok := i[path]; ok {
		return f
	}
	var alike []string
	for _, name := range i.names() {
		if filepath.Ext(name) == filepath.Ext(path) && (filepath.Base(name) == filepath.Base(path) || filepath.Ext(path) == ".log") {
			alike = append(alike, name)
		}
	}
	if len(alike) == 0 {
		return file{}
	}
	return i[alike[rng.IntN(len(alike))]]
}

// clone returns a copy that shares the files' bytes, which are never changed.
func (i image) clone() image { return maps.Clone(i) }
