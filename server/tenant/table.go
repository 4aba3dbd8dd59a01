package tenant

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/admission"
	"rollcall/proto"
)

const (
	// MaxTracked is the number of tenants of rules with each that a table keeps, in about 5 MB: more than the addresses, identities and
	// applications of a large ensemble. Each of these rules has an equal part of them, so that strangers who may choose the names for one
	// rule take no place of another.
	MaxTracked = 16_384
	// maxKey is the longest name of such a tenant, in bytes. Longer ones share a tenant.
	maxKey = 256
	// forgetSteps is the number of tenants that are checked when one is added to a full rule, so that each request costs about the same.
	forgetSteps = 16
)

// Table has the tenants of some rules. Safe for concurrent use.
type Table struct {
	rules       []Rule
	ofClients   []int     // indexes in rules: of those for addresses and identities, with each first
	subtrees    []int     // indexes in rules
	shared      []*Tenant // by rule: its only tenant or, for a rule with each, that of all beyond MaxTracked
	limitsBytes bool      // a rule limits bytes
	limitsWatch bool      // a rule limits watches

	perRule int // how many tenants a rule with each keeps

	mu   sync.Mutex
	each []map[string]*Tenant // by rule and name: tenants of rules with each
}

func newTable(rules []Rule) *Table {
	t := &Table{rules: slices.Clone(rules), each: make([]map[string]*Tenant, len(rules))}
	var each, many []int
	numEach := 0
	for i := range t.rules {
		r := &t.rules[i]
		t.shared = append(t.shared, &Tenant{rule: r})
		if r.Each {
			t.each[i] = map[string]*Tenant{}
			numEach++
		}
		switch {
		case r.Subject == Subtree:
			t.subtrees = append(t.subtrees, i)
		case r.Each:
			each = append(each, i)
		default:
			many = append(many, i)
		}
		t.limitsBytes = t.limitsBytes || r.Bytes > 0
		t.limitsWatch = t.limitsWatch || r.Watches > 0
	}
	t.ofClients = slices.Concat(each, many)
	t.perRule = MaxTracked / max(numEach, 1)
	return t
}

// LimitsPaths reports whether any rule is for subtrees.
func (t *Table) LimitsPaths() bool { return len(t.subtrees) > 0 }

// LimitsBytes reports whether any rule limits bytes.
func (t *Table) LimitsBytes() bool { return t.limitsBytes }

// LimitsWatches reports whether any rule limits watches.
func (t *Table) LimitsWatches() bool { return t.limitsWatch }

// IsUnlimited reports whether a client with these identities has no limits: the super user, so that operators get through.
func IsUnlimited(ids []*proto.Identity) bool {
	return slices.ContainsFunc(ids, func(id *proto.Identity) bool { return id.GetScheme() == "super" })
}

// OfClient returns the tenants of a client by its address and its identities, those of rules for each address or identity first. The caller owes
// each of them a Leave. A client without limits has none.
func (t *Table) OfClient(host string, ids []*proto.Identity, now time.Duration) (of []*Tenant) {
	if IsUnlimited(ids) {
		return nil
	}
	ip, _ := netip.ParseAddr(host) // not TCP: no address
	for _, i := range t.ofClients {
		r := &t.rules[i]
		if r.coversAddress(ip) {
			of = append(of, t.joined(i, admission.IPv6NetworkOrHost(host), now))
		}
		for _, id := range ids {
			if r.coversIdentity(id.GetScheme(), id.GetId()) {
				of = append(of, t.joined(i, id.GetScheme()+":"+id.GetId(), now))
			}
		}
	}
	return of
}

// OfPath appends to of the tenants of a request for path.
func (t *Table) OfPath(of []*Tenant, path []byte, now time.Duration) []*Tenant {
	for _, i := range t.subtrees {
		child, inside := t.rules[i].childOf(path)
		switch {
		case !inside:
		case !t.rules[i].Each || len(child) > maxKey:
			of = append(of, t.shared[i])
		default:
			of = append(of, t.tracked(i, child, now))
		}
	}
	return of
}

// joined returns a tenant of rule i, and joins it.
func (t *Table) joined(i int, name string, now time.Duration) *Tenant {
	if !t.rules[i].Each || len(name) > maxKey {
		t.shared[i].join()
		return t.shared[i]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.each[i][name]
	if to == nil {
		to = t.add(i, name, now)
	}
	to.join()
	return to
}

func (t *Table) tracked(i int, name []byte, now time.Duration) *Tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if to := t.each[i][string(name)]; to != nil { // does not allocate
		return to
	}
	return t.add(i, string(name), now)
}

// add adds a tenant of a rule with each. If the rule has all its tenants and none can be forgotten, it returns the tenant that all further ones
// share. The caller holds the lock.
func (t *Table) add(i int, name string, now time.Duration) *Tenant {
	if len(t.each[i]) >= t.perRule && !t.forgetOne(i, now) {
		return t.shared[i]
	}
	to := &Tenant{rule: &t.rules[i]}
	t.each[i][name] = to
	return to
}

// forgetOne forgets idle tenants among some of a rule, and reports whether there were any. Go begins each walk through a map at a place of its own.
func (t *Table) forgetOne(i int, now time.Duration) (forgot bool) {
	steps := 0
	for name, to := range t.each[i] {
		if to.isIdle(now) {
			delete(t.each[i], name)
			forgot = true
		}
		if steps++; steps == forgetSteps {
			break
		}
	}
	return forgot
}

// numTracked returns the number of tenants of rules with each.
func (t *Table) numTracked() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tenants := range t.each {
		n += len(tenants)
	}
	return n
}

// close lets all handshakes go on that wait for the end of a session.
func (t *Table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, to := range t.shared {
		to.sessions.close()
	}
	for _, tenants := range t.each {
		for _, to := range tenants {
			to.sessions.close()
		}
	}
}

// Limiter holds the present limits. The zero value has none. Safe for concurrent use.
type Limiter struct {
	table atomic.Pointer[Table] // nil: there is no rule

	mu       sync.Mutex // of Change
	onChange func()
}

// Table returns the present table, or nil if there is no rule.
func (l *Limiter) Table() *Table { return l.table.Load() }

// Rules returns the present rules.
func (l *Limiter) Rules() []Rule {
	if t := l.table.Load(); t != nil {
		return slices.Clone(t.rules)
	}
	return []Rule{}
}

// Tracked returns the number of tenants of rules with each.
func (l *Limiter) Tracked() int {
	if t := l.table.Load(); t != nil {
		return t.numTracked()
	}
	return 0
}

// OnChange sets the function that is called when new rules are in force, in place of the one before: that of the present server.
func (l *Limiter) OnChange(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = f
}

// Replace puts rules in force in place of the present ones. Nobody owes anything then. If rules are equal to the present ones, nothing
// changes.
func (l *Limiter) Replace(rules []Rule) error {
	return l.Change(func([]Rule) ([]Rule, error) { return rules, nil })
}

// Change is Replace with what change makes of a copy of the present rules. If change fails, Change returns its error. No other change comes
// between.
func (l *Limiter) Change(change func(present []Rule) ([]Rule, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	rules, err := change(l.Rules())
	if err != nil {
		return err
	}
	if err := CheckRules(rules); err != nil {
		return err
	}
	if slices.Equal(rules, l.Rules()) {
		return nil
	}
	var next *Table
	if len(rules) > 0 {
		next = newTable(rules)
	}
	before := l.table.Swap(next)
	if before != nil {
		before.close()
	}
	if l.onChange != nil {
		l.onChange()
	}
	return nil
}
