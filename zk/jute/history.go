package jute

import (
	"fmt"
	"strconv"
	"strings"
)

// HistoryPath is the path at which a Rollcall server shows its History to getData, unless a node has that path. It is in
// no list of children. ZooKeeper has no such node.
const HistoryPath = "/zookeeper/history"

// NoHistory is the value of History.Since of a server that promises nothing.
const NoHistory = 1<<63 - 1

// History describes the changes that a server keeps for persistent watches that are set again.
type History struct {
	// Ensemble is the id of the ensemble, of 64 hexadecimal digits. It is drawn when an ensemble begins, is restored from
	// a backup, or is recovered from one of its members. So two equal ids are of the same log.
	Ensemble string
	// Since is a zxid: the server keeps all changes after it. On a server it only grows, or NoHistory becomes the zxid
	// before a term in which there had been no change.
	Since int64
	// ACLs is a zxid: no access control list was changed after it. It is NoHistory if that is not known. There is no event of
	// such a change, so who keeps copies of nodes must see whether it may still read them.
	ACLs int64
}

// Text returns the data at HistoryPath: three lines.
func (h History) Text() string {
	return "ensemble=" + h.Ensemble + "\nsince=" + zxidText(h.Since) + "\nacls=" + zxidText(h.ACLs) + "\n"
}

func zxidText(zxid int64) string {
	if zxid == NoHistory {
		return "none"
	}
	return fmt.Sprintf("%#x", zxid)
}

// ParseHistory reads a text of History.Text. The line of ACLs may be missing, and more lines may follow. ok is false if it is
// another text.
func ParseHistory(text string) (h History, ok bool) {
	ensemble, rest, _ := strings.Cut(text, "\n")
	since, rest, _ := strings.Cut(rest, "\n")
	ensemble, isEnsemble := strings.CutPrefix(ensemble, "ensemble=")
	since, isSince := strings.CutPrefix(since, "since=")
	if !isEnsemble || !isSince || ensemble == "" {
		return History{}, false
	}
	h = History{Ensemble: ensemble, ACLs: NoHistory}
	if line, _, _ := strings.Cut(rest, "\n"); strings.HasPrefix(line, "acls=") {
		if h.ACLs, ok = parseZxid(strings.TrimPrefix(line, "acls=")); !ok {
			return History{}, false
		}
	}
	h.Since, ok = parseZxid(since)
	return h, ok
}

func parseZxid(text string) (zxid int64, ok bool) {
	if text == "none" {
		return NoHistory, true
	}
	zxid, err := strconv.ParseInt(text, 0, 64)
	return zxid, err == nil && zxid >= 0
}
