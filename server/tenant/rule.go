package tenant

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// Subject is what a rule counts by.
type Subject uint8

const (
	Address  Subject = iota // clients by their address
	Identity                // clients by an identity that they have proved
	Subtree                 // requests by their path
)

var subjectNames = []string{Address: "address", Identity: "identity", Subtree: "subtree"}

// Bounds of the numbers of a rule.
const (
	// MaxRules bounds the rules, because each request is compared with those for subtrees, and each connection with all others.
	MaxRules = 64
	// maxRequests and maxBytes are more than a server does. minBytes has the longest data of a node by default, 1 MiB, paid within
	// MaxDebt: below it, a rate would mean little.
	maxRequests = 10_000_000
	minBytes    = 18 << 10
	maxBytes    = 1 << 40
	// maxCount is more than the sessions or watches of a server.
	maxCount = 1 << 30
	// maxSelector bounds the text after the subject, in bytes. Subjects of certificates and paths are shorter.
	maxSelector = 1 << 10
)

// Rule is a limit: who may have how much. Numbers of 0 set no limit.
type Rule struct {
	Name    string
	Subject Subject
	Each    bool // each address, identity or child of Path has the numbers for itself

	Network    netip.Prefix // for Address; invalid: all addresses
	Scheme, ID string       // for Identity; ID is "" if Each is set, and Scheme may be
	Path       string       // for Subtree

	Requests, Bytes   int64 // in a second
	Sessions, Watches int64
}

var ruleName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// errGrammar is the error of a text whose beginning is none of a rule.
var errGrammar = errors.New("must begin with address, each address, identity SCHEME:ID, each identity, subtree /PATH or each subtree /PATH")

// numberNames are the names of the numbers, in the order of String.
var numberNames = []string{"requests", "bytes", "sessions", "watches"}

func (r *Rule) numbers() []*int64 { return []*int64{&r.Requests, &r.Bytes, &r.Sessions, &r.Watches} }

// ParseRule reads a rule such as "each address 10.0.0.0/8 requests=100 sessions=20". The numbers come last. Its errors say what is wrong
// and what is allowed.
func ParseRule(name, text string) (Rule, error) {
	r := Rule{Name: name}
	if !ruleName.MatchString(name) {
		return r, errors.New("the name of a limit has 1 to 64 letters, digits, - and _")
	}
	words := strings.Fields(text)
	for len(words) > 0 {
		what, number, isNumber := strings.Cut(words[len(words)-1], "=")
		i := slices.Index(numberNames, what)
		if !isNumber || i < 0 {
			break
		}
		if *r.numbers()[i] != 0 {
			return r, fmt.Errorf("%s is there twice; leave one of them out", what)
		}
		n, err := parseNumber(what, number)
		if err != nil {
			return r, err
		}
		*r.numbers()[i] = n
		words = words[:len(words)-1]
	}
	if len(words) > 0 && words[0] == "each" {
		r.Each, words = true, words[1:]
	}
	if len(words) == 0 {
		return r, errGrammar
	}
	subject := slices.Index(subjectNames, words[0])
	if subject < 0 {
		return r, errGrammar
	}
	r.Subject = Subject(subject)
	selector := strings.Join(words[1:], " ")
	if len(selector) > maxSelector {
		return r, fmt.Errorf("%s: the text after it has %d bytes; at most %d are allowed", words[0], len(selector), maxSelector)
	}
	if err := r.parseSelector(selector); err != nil {
		return r, err
	}
	return r, r.checkNumbers()
}

func parseNumber(what, text string) (int64, error) {
	least, most, unit := int64(1), int64(maxCount), int64(1)
	switch what {
	case "requests":
		most = maxRequests
	case "bytes":
		least, most = minBytes, maxBytes
		if i := strings.IndexAny(text, "KMGkmg"); i > 0 && i == len(text)-1 {
			unit = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}[text[i]|0x20]
			text = text[:i]
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most/unit || n*unit < least {
		if what == "bytes" {
			return 0, errors.New("bytes must be 18K to 1024G, in a second; bytes, or with K, M or G after the number; leave it out for no limit")
		}
		return 0, fmt.Errorf("%s must be %d to %d; leave it out for no limit", what, least, most)
	}
	return n * unit, nil
}

func (r *Rule) parseSelector(text string) error {
	switch r.Subject {
	case Address:
		if text == "" {
			return nil
		}
		network, err := parseNetwork(text)
		r.Network = network
		return err
	case Identity:
		r.Scheme, r.ID, _ = strings.Cut(text, ":")
		switch {
		case r.Scheme == "ip" || r.Scheme == "world":
			return fmt.Errorf("identity %s: every client has one; use address", r.Scheme)
		case r.Each && r.ID != "":
			return errors.New("each identity takes a scheme and no id; leave out each, or the id")
		case !r.Each && (r.Scheme == "" || r.ID == ""):
			return errors.New("identity takes SCHEME:ID, such as sasl:bob; write each identity for all of them")
		}
		return nil
	}
	if !jute.ValidPath(text) {
		return errors.New("subtree takes the path of a node, such as /kafka")
	}
	r.Path = text
	return nil
}

// parseNetwork reads an address or a network. IPv4 has its own form.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		return network, errors.New("address takes an IP address or a network, such as 10.1.2.3 or 10.0.0.0/8")
	}
	return network.Masked(), nil
}

func (r *Rule) checkNumbers() error {
	switch {
	case r.Requests|r.Bytes|r.Sessions|r.Watches == 0:
		return errors.New("there is no number; add at least one of requests=, bytes=, sessions= and watches=")
	case r.Sessions != 0 && r.Subject != Address:
		return errors.New("sessions can only be limited by address: a client proves its identity after it has its session")
	case r.Watches != 0 && r.Subject == Subtree:
		return errors.New("watches can only be limited by address or identity; limit those of the clients")
	}
	return nil
}

// String returns the rule without its name, as ParseRule reads it.
func (r *Rule) String() string {
	var b strings.Builder
	if r.Each {
		b.WriteString("each ")
	}
	b.WriteString(subjectNames[r.Subject])
	switch {
	case r.Subject == Address && r.Network.IsValid() && r.Network.IsSingleIP():
		b.WriteString(" " + r.Network.Addr().String())
	case r.Subject == Address && r.Network.IsValid():
		b.WriteString(" " + r.Network.String())
	case r.Subject == Identity && r.ID != "":
		b.WriteString(" " + r.Scheme + ":" + r.ID)
	case r.Subject == Identity && r.Scheme != "":
		b.WriteString(" " + r.Scheme)
	case r.Subject == Subtree:
		b.WriteString(" " + r.Path)
	}
	for i, n := range r.numbers() {
		if *n != 0 {
			fmt.Fprintf(&b, " %s=%d", numberNames[i], *n)
		}
	}
	return b.String()
}

// CheckRules checks the rules against each other.
func CheckRules(rules []Rule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("there are %d limits; at most %d are allowed", len(rules), MaxRules)
	}
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.Name] {
			return fmt.Errorf("there are two limits with the name %s; give one of them another name", r.Name)
		}
		seen[r.Name] = true
	}
	return nil
}

// coversAddress reports whether the rule counts a client with this address.
func (r *Rule) coversAddress(host netip.Addr) bool {
	return r.Subject == Address && (!r.Network.IsValid() || r.Network.Contains(host))
}

// coversIdentity reports whether the rule counts a client with this identity. Every client has one of the scheme ip, which no rule counts.
func (r *Rule) coversIdentity(scheme, id string) bool {
	return r.Subject == Identity && scheme != "ip" && (r.Scheme == "" || r.Scheme == scheme) && (r.ID == "" || r.ID == id)
}

// childOf reports whether the rule counts a request for path. For a rule with each, it returns the name of the child of Path that has path;
// such a rule does not count Path itself.
func (r *Rule) childOf(path []byte) (child []byte, inside bool) {
	if r.Subject != Subtree {
		return nil, false
	}
	rest := path
	if r.Path != "/" {
		if len(path) < len(r.Path) || string(path[:len(r.Path)]) != r.Path {
			return nil, false
		}
		rest = path[len(r.Path):]
	}
	if len(rest) > 0 && rest[0] != '/' {
		return nil, false
	}
	if !r.Each || len(rest) <= 1 {
		return nil, !r.Each
	}
	rest = rest[1:]
	for i, c := range rest {
		if c == '/' {
			return rest[:i], true
		}
	}
	return rest, true
}
