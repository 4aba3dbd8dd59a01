package contender

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// Layout describes the names of the contenders under a parent. Two programs exclude each other only if they use the same
// layout under the same parent.
type Layout struct {
	title      string   // for errors
	idPrefix   string   // the text before the protection id
	idSuffix   string   // the text between the protection id and the kind
	dashedIDs  bool     // protection ids are made in the form 8-4-4-4-12; both forms are known
	kindLabels []string // the text between the protection id and the number, for each Kind
}

// Kind distinguishes the contenders under a parent, such as readers and writers. It is an index into kindLabels.
type Kind int

// Reader and Writer are the kinds of CuratorReadWrite and KazooReadWrite. All other layouts have one kind, 0.
const (
	Reader Kind = iota
	Writer
)

// These are the layouts. An id is a random UUID, with or without its dashes; <n> is the server's number.
var (
	// CuratorLock has the names _c_<id>-lock-<n>: Curator's InterProcessMutex and LeaderSelector, go-zookeeper/zk's Lock.
	CuratorLock = curatorLayout("Curator's mutex", "lock-")
	// CuratorReadWrite has the names _c_<id>-__READ__<n> and _c_<id>-__WRIT__<n>: Curator's InterProcessReadWriteLock.
	CuratorReadWrite = curatorLayout("Curator's read-write lock", "__READ__", "__WRIT__")
	// CuratorLatch has the names _c_<id>-latch-<n>: Curator's LeaderLatch.
	CuratorLatch = curatorLayout("Curator's LeaderLatch", "latch-")
	// CuratorLease has the names _c_<id>-lease-<n>: the leases of Curator's InterProcessSemaphoreV2.
	CuratorLease = curatorLayout("Curator's semaphore", "lease-")
	// KazooLock has the names <id>__lock__<n>: kazoo's Lock and Election.
	KazooLock = kazooLayout("kazoo's Lock", "__lock__")
	// KazooReadWrite has the names <id>__rlock__<n> and <id>__lock__<n>: kazoo's ReadLock and WriteLock.
	KazooReadWrite = kazooLayout("kazoo's ReadLock and WriteLock", "__rlock__", "__lock__")
)

func curatorLayout(title string, kinds ...string) Layout {
	return Layout{title: title, idPrefix: "_c_", idSuffix: "-", dashedIDs: true, kindLabels: kinds}
}

func kazooLayout(title string, kinds ...string) Layout {
	return Layout{title: title, kindLabels: kinds}
}

// String returns the layout's title and the names that it knows.
func (l Layout) String() string {
	names := make([]string, len(l.kindLabels))
	for i, kind := range l.kindLabels {
		names[i] = l.idPrefix + "<id>" + l.idSuffix + kind + "<number>"
	}
	return l.title + ", with the names " + strings.Join(names, " and ")
}

// Name is the name of a contender.
type Name struct {
	Text   string // the whole name
	ID     string // the protection id
	Kind   Kind
	Number int64 // the server's, as jute.ParseSequence returns it; a negative one is ZooKeeper's
}

// Parse splits the name of a contender into its parts. ok is false if the name is not one of this layout.
func (l Layout) Parse(text string) (name Name, ok bool) {
	rest, ok := strings.CutPrefix(text, l.idPrefix)
	if !ok {
		return Name{}, false
	}
	id := rest[:idLength(rest)]
	rest, ok = strings.CutPrefix(rest[len(id):], l.idSuffix)
	if !ok || id == "" {
		return Name{}, false
	}
	for kind, label := range l.kindLabels {
		digits, found := strings.CutPrefix(rest, label)
		if !found {
			continue
		}
		if number, ok := parseNumber(digits); ok {
			return Name{Text: text, ID: id, Kind: Kind(kind), Number: number}, true
		}
	}
	return Name{}, false
}

// parseNumber parses the number of a server, which is negative if text begins with a minus sign.
func parseNumber(text string) (number int64, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	number, ok = jute.ParseSequence(digits)
	if negative {
		return -number, ok && -number >= math.MinInt32
	}
	return number, ok
}

// The lengths of a protection id without its dashes, and with them.
const (
	plainIDLength  = 32
	dashedIDLength = 36
)

// idLength returns the length of the protection id at the beginning of text, or 0 if there is none. It runs for each
// child of a parent, so it does not allocate.
func idLength(text string) int {
	length, dashed := plainIDLength, len(text) > 8 && text[8] == '-'
	if dashed {
		length = dashedIDLength
	}
	if len(text) < length {
		return 0
	}
	for i := range length {
		if dashed && (i == 8 || i == 13 || i == 18 || i == 23) {
			if text[i] != '-' {
				return 0
			}
		} else if !isHexDigit[text[i]] {
			return 0
		}
	}
	return length
}

// isHexDigit is true for the bytes of hexadecimal digits.
var isHexDigit = func() (is [256]bool) {
	for _, c := range "0123456789abcdefABCDEF" {
		is[c] = true
	}
	return is
}()

// namePrefix returns the name of a contender without its sequence number.
func (l Layout) namePrefix(id string, kind Kind) string {
	return l.idPrefix + id + l.idSuffix + l.kindLabels[kind]
}

// newID returns a random protection id.
func (l Layout) newID() string {
	id := nodepath.NewUUID()
	if l.dashedIDs {
		return id
	}
	return strings.ReplaceAll(id, "-", "")
}

// splitChildren returns the contenders among children, in their order, and the other children, sorted.
func (l Layout) splitChildren(children []string) (contenders []Name, foreign []string) {
	contenders = make([]Name, 0, len(children))
	for _, child := range children {
		if name, ok := l.Parse(child); ok {
			contenders = append(contenders, name)
		} else {
			foreign = append(foreign, child)
		}
	}
	slices.Sort(foreign)
	slices.SortFunc(contenders, compareNames)
	return contenders, foreign
}

// compareNames orders contenders by their numbers. Two contenders have the same number if a writer has also become a
// reader and keeps its place.
func compareNames(a, b Name) int {
	if a.Number != b.Number {
		return cmp.Compare(a.Number, b.Number)
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Text, b.Text))
}

// isNumberUsedUp reports whether the servers may assign the number, or a smaller one, to a later contender. Servers that
// assign higher numbers leave out MaxZooKeeperSequence.
func (n Name) isNumberUsedUp() bool { return n.Number < 0 || n.Number == jute.MaxZooKeeperSequence }
