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
}

// Text returns the data at HistoryPath: two lines.
func (h History) Text() string {
	since := "none"
	if h.Since != NoHistory {
		since = fmt.Sprintf("%#x", h.Since)
	}
	return "ensemble=" + h.Ensemble + "\nsince=" + since + "\n"
}

// ParseHistory reads a text of History.Text. More lines may follow. ok is false if it is another text.
func ParseHistory(text string) (h History, ok bool) {
	ensemble, rest, _ := strings.Cut(text, "\n")
	since, _, _ := strings.Cut(rest, "\n")
	ensemble, isEnsemble := strings.CutPrefix(ensemble, "ensemble=")
	since, isSince := strings.CutPrefix(since, "since=")
	if !isEnsemble || !isSince || ensemble == "" {
		return History{}, false
	}
	if since == "none" {
		return History{ensemble, NoHistory}, true
	}
	zxid, err := strconv.ParseInt(since, 0, 64)
	return History{ensemble, zxid}, err == nil && zxid >= 0
}
