package audit

import (
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/proto"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
)

const (
	// maxText limits the bytes of a path, an ACL or an error in a line. Clients choose them, and a path may be as long
	// as a request.
	maxText = 4 << 10
	// maxName limits the bytes of an identity's name.
	maxName = 256
	// maxNames limits the identities in a line. A connection may have hundreds.
	maxNames = 16
)

// Result is the result of an operation.
type Result uint8

// All results but Unchanged are as in ZooKeeper's audit log.
const (
	Success Result = iota
	Failure
	Invoked   // it has begun
	Unchanged // a create of a node that exists; a failure in ZooKeeper's audit log
)

// resultNames are the results in JSON, and zooKeeperResults the results in ZooKeeper's format.
var (
	resultNames      = [...]string{Success: "success", Failure: "failure", Invoked: "invoked", Unchanged: "unchanged"}
	zooKeeperResults = [...]string{Success: "success", Failure: "failure", Invoked: "invoked", Unchanged: "failure"}
)

// Event is an event with a line of its own. The line has the fields that are not zero, and Result.
type Event struct {
	AtMs      int64             // ms since 1970; for a change of the state, the log's time
	Zxid      int64             // of the transaction
	Session   jute.SessionID    // of the request, or the one that the event is about
	Ids       []*proto.Identity // of the client, with its address in the scheme ip
	User      string            // for an event without a client
	Address   string            // of the client, with or without a port; default: from Ids
	Operation string
	Path      string
	Target    string // another object than a path
	Type      string // of the created node
	ACL       string // the new one; see aclText
	Result    Result
	Error     string
	Reason    string        // the cause
	Timeout   time.Duration // of the session
	Dropped   uint64        // missing lines before this one
}

// clientHost returns the client's address without a port.
func (e *Event) clientHost() string {
	if e.Address != "" {
		if host, _, err := net.SplitHostPort(e.Address); err == nil {
			return host
		}
		return e.Address
	}
	for _, id := range e.Ids {
		if id.GetScheme() == "ip" {
			return id.GetId()
		}
	}
	return ""
}

// maxFieldText returns the limit of bytes for the target and for the error of the line.
func (e *Event) maxFieldText() int {
	if e.isAuthFailure() {
		return maxFailureText
	}
	return maxText
}

// The beginning of a line in each format, by which a file is recognised.
const (
	jsonPrefix          = `{"at":"`
	zooKeeperTimeLayout = "2006-01-02 15:04:05,000"
	zooKeeperLogger     = " INFO audit.Slf4jAuditLogger: "
)

// formatter writes events as lines.
type formatter struct {
	member      uint32
	processUser string // that this process runs as
	zooKeeper   bool
	stampMs     int64  // the time in stamp
	stamp       []byte // of the last line
}

// appendLine appends the line of e.
func (f *formatter) appendLine(b []byte, e *Event) []byte {
	layout := "2006-01-02T15:04:05.000Z"
	if f.zooKeeper {
		layout = zooKeeperTimeLayout
	}
	if e.AtMs != f.stampMs || f.stamp == nil { // the changes of one entry have one time
		f.stampMs, f.stamp = e.AtMs, time.UnixMilli(e.AtMs).UTC().AppendFormat(f.stamp[:0], layout)
	}
	if f.zooKeeper {
		return f.appendZooKeeper(b, e)
	}
	return f.appendJSON(b, e)
}

func (f *formatter) appendJSON(b []byte, e *Event) []byte {
	b = append(append(append(b, jsonPrefix...), f.stamp...), `","member":`...)
	b = strconv.AppendUint(b, uint64(f.member), 10)
	if e.Session != 0 {
		b = append(strconv.AppendUint(append(b, `,"session":"0x`...), uint64(e.Session), 16), '"')
	}
	b = appendIdentities(b, e)
	b = appendField(b, "address", e.clientHost(), maxName)
	b = appendField(b, "operation", e.Operation, maxName)
	b = appendField(b, "path", e.Path, maxText)
	b = appendField(b, "target", e.Target, e.maxFieldText())
	b = appendField(b, "type", e.Type, maxName)
	b = appendField(b, "acl", e.ACL, maxText)
	b = appendField(b, "result", resultNames[e.Result], maxName)
	b = appendField(b, "error", e.Error, e.maxFieldText())
	b = appendField(b, "reason", e.Reason, maxText)
	if e.Timeout != 0 {
		b = strconv.AppendInt(append(b, `,"timeout_ms":`...), e.Timeout.Milliseconds(), 10)
	}
	if e.Dropped != 0 {
		b = strconv.AppendUint(append(b, `,"dropped":`...), e.Dropped, 10)
	}
	if e.Zxid != 0 {
		b = append(strconv.AppendUint(append(b, `,"zxid":"0x`...), uint64(e.Zxid), 16), '"')
	}
	return append(b, "}\n"...)
}

// appendIdentities appends the identities of a client, or the user.
func appendIdentities(b []byte, e *Event) []byte {
	who, n := append(b, `,"who":[`...), 0
	name := func(scheme, id string) {
		if n++; n > 1 {
			who = append(who, ',')
		}
		who = append(appendText(append(who, '"'), scheme, maxName, true), ':')
		who = append(appendText(who, id, maxName, true), '"')
	}
	for _, id := range e.Ids {
		if id.GetScheme() != "ip" && n < maxNames {
			name(id.GetScheme(), identityName(id))
		}
	}
	if e.User != "" {
		name("user", e.User)
	}
	if n == 0 {
		return b
	}
	return appendFingerprints(append(who, ']'), e)
}

// appendFingerprints appends the fingerprints of the identities of the scheme digest, in the order of their names.
// Clients choose these names freely.
func appendFingerprints(b []byte, e *Event) []byte {
	n := 0
	for print := range e.fingerprints() {
		b = append(append(append(b, [...]string{`,"fingerprints":["`, `,"`}[min(n, 1)]...), print...), '"')
		n++
	}
	if n > 0 {
		b = append(b, ']')
	}
	return b
}

// fingerprints yields the fingerprints of the identities of the scheme digest whose names are in the line.
func (e *Event) fingerprints() iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for _, id := range e.Ids {
			if id.GetScheme() == "ip" {
				continue
			}
			if n++; n > maxNames || id.GetScheme() == "digest" && !yield(digest.Fingerprint(id.GetId())) {
				return
			}
		}
	}
}

// appendField appends a field of JSON, unless it is empty.
func appendField(b []byte, name, value string, most int) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":"`...)
	return append(appendText(b, value, most, true), '"')
}

// appendZooKeeper appends the line as ZooKeeper 3.8 writes it with its sample configuration of log4j, with the same
// names in the same order. Unlike there, special characters are escaped.
func (f *formatter) appendZooKeeper(b []byte, e *Event) []byte {
	b = append(append(b, f.stamp...), zooKeeperLogger...)
	begin := len(b)
	if e.Session != 0 {
		b = strconv.AppendUint(append(b, "session=0x"...), uint64(e.Session), 16)
	}
	b = f.appendUsers(b, begin, e)
	b = appendZooKeeperField(b, begin, "ip", e.clientHost(), maxName)
	b = appendZooKeeperField(b, begin, "operation", e.Operation, maxName)
	path := e.Path
	if path == "" && e.Operation != operations[operationIndex(jute.OpMulti)].name {
		path = e.Target
	}
	b = appendZooKeeperField(b, begin, "znode", path, e.maxFieldText())
	b = appendZooKeeperField(b, begin, "znode_type", e.Type, maxName)
	b = appendZooKeeperField(b, begin, "acl", e.ACL, maxText)
	b = appendZooKeeperField(b, begin, "result", zooKeeperResults[e.Result], maxName)
	b = appendZooKeeperField(b, begin, "fingerprint", strings.Join(slices.Collect(e.fingerprints()), ","), maxName)
	if e.Dropped != 0 {
		b = appendZooKeeperField(b, begin, "dropped", strconv.FormatUint(e.Dropped, 10), maxName)
	}
	return append(b, '\n')
}

// appendUsers appends the names of a client's identities, with its address as the last one, or the user.
func (f *formatter) appendUsers(b []byte, begin int, e *Event) []byte {
	if len(b) > begin {
		b = append(b, '\t')
	}
	b = append(b, "user="...)
	if len(e.Ids) == 0 {
		name := e.User
		if name == "" {
			name = f.processUser // as in ZooKeeper, for an event without a client
		}
		return appendText(b, name, maxName, false)
	}
	names := make([]string, 0, maxNames+1)
	for _, id := range e.Ids {
		name := identityName(id)
		if name == "" {
			name = id.GetScheme()
		}
		if id.GetScheme() != "ip" && len(names) < maxNames && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	for _, name := range append(names, e.clientHost()) {
		if b[len(b)-1] != '=' {
			b = append(b, ',')
		}
		for i, part := range strings.Split(name, ",") {
			if i > 0 {
				b = appendEscape(b, ',') // it is within a name
			}
			b = appendText(b, part, maxName, false)
		}
	}
	return b
}

// appendZooKeeperField appends a field of ZooKeeper's format, unless it is empty.
func appendZooKeeperField(b []byte, begin int, name, value string, most int) []byte {
	if value == "" {
		return b
	}
	if len(b) > begin {
		b = append(b, '\t')
	}
	return appendText(append(append(b, name...), '='), value, most, false)
}

// identityName returns the name of an identity: of digest only the user.
func identityName(id *proto.Identity) string {
	if id.GetScheme() == "digest" {
		user, _, _ := strings.Cut(id.GetId(), ":")
		return user
	}
	return id.GetId()
}

// aclSchemes are the schemes whose ids are in an ACL's text (of digest only the user). Ids of other schemes may have
// passwords: clients write auth:USER:PASSWORD, although an entry of auth needs no id.
var aclSchemes = []string{"world", "ip", "digest", "sasl", "x509"}

// aclText returns an ACL as ZooKeeper prints it, with commas between its entries, and without passwords and
// their hashes. It is not much longer than maxText.
func aclText(list []jute.ACL) string {
	var b strings.Builder
	for i := range list {
		if b.Len() > maxText {
			break // appendText cuts it
		}
		if i > 0 {
			b.WriteByte(',')
		}
		scheme, id := string(list[i].ID.Scheme), ""
		if slices.Contains(aclSchemes, scheme) {
			id = string(list[i].ID.ID)
		}
		b.WriteString(scheme + ":" + identityName(&proto.Identity{Scheme: scheme, Id: id}) + ":" + list[i].Perms.Letters())
	}
	return b.String()
}
