package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"rollcall/internal/secretfile"
	"rollcall/operator/admin"
	"rollcall/operator/api"
)

// Verdict is the state of a key in a configuration.
type Verdict string

const (
	InForce   Verdict = "in force"  // as it was set
	ByDefault Verdict = "default"   // it was not set
	NoEffect  Verdict = "no effect" // Rollcall does not serve it
	Unknown   Verdict = "unknown"   // there is no such key
	Dangerous Verdict = "dangerous" // in force, but it may cost data, clients or secrets
	Refused   Verdict = "refused"   // a member does not start with it
)

// Key is a key in one configuration.
type Key struct {
	Name    string
	Value   string // as set, or the default; "" if it is secret or the key unknown
	Default string // or a description of it
	Source  string // "zoo.cfg:12", "ZOO_TICK_TIME", "--tick"; "default"
	Verdict Verdict
	Reason  string // the reason for NoEffect, Unknown, Dangerous and Refused
}

func (k Key) Setting() api.Setting {
	return api.Setting{
		Key: k.Name, Value: k.Value, Default: k.Default, Origin: k.Source, State: string(k.Verdict),
		Warning: k.Reason,
	}
}

// Report is the result of Check.
type Report struct {
	Config   Config    // complete if there is no error; has Keys if the sources could be read
	Warnings []Warning // as of Load
	Errors   []error   // each keeps a member from starting
	// FilesKnown reports whether Config names all files that a member would read. It is false if a value is rejected
	// or keys contradict each other, because Config lacks the values that follow from them then.
	FilesKnown bool
}

// Check reads a configuration as Load does, but continues after an error, so it reports the errors of all keys. If
// there are none, it checks the keys against each other up to the first error.
func Check(file string, env []string, flags Flags) Report {
	d, all, err := readSources(file, env, flags)
	if err != nil {
		return Report{Warnings: all.warnings, Errors: eachError(err)} // a source cannot be read
	}
	r := Report{Errors: d.applySettings(all.list)}
	if len(r.Errors) == 0 {
		failed := d.finishAll()
		r.FilesKnown = failed == nil
		for _, err := range []error{failed, d.finishLogin()} { // neither step needs the other
			if err != nil {
				r.Errors = append(r.Errors, err)
			}
		}
	}
	d.config.Keys = d.explainKeys()
	r.Config, r.Warnings = d.config, d.warnings
	return r
}

// Err returns one error for all of Errors, or nil if there are none.
func (r *Report) Err() error {
	if len(r.Errors) < 2 {
		return errors.Join(r.Errors...)
	}
	texts := make([]string, len(r.Errors))
	for i, err := range r.Errors {
		texts[i] = err.Error()
	}
	return allErrors{errors.Join(r.Errors...), fmt.Sprintf("%d values are refused; %s", len(texts), strings.Join(texts, "; "))}
}

// eachError returns the errors that err joins, or err alone.
func eachError(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// allErrors are several errors in one line.
type allErrors struct {
	error
	text string
}

func (e allErrors) Error() string { return e.text }
func (e allErrors) Unwrap() error { return e.error }

// AddFaults adds faults of files that keys name. A fault that is not mild keeps a member from starting.
func (r *Report) AddFaults(faults []*secretfile.Fault) {
	for _, f := range faults {
		where := f.Key
		if i := slices.IndexFunc(r.Config.Keys, func(k Key) bool { return k.Name == f.Key }); i >= 0 {
			k := &r.Config.Keys[i]
			where = k.Source
			k.addFault(f)
		}
		if f.IsWarning {
			r.Warnings = append(r.Warnings, Warning{Where: where, Text: f.Error()})
			continue
		}
		r.Errors = append(r.Errors, fmt.Errorf("%s: %w", where, f))
	}
}

// addFault adds a fault of the file that the key names.
func (k *Key) addFault(f *secretfile.Fault) {
	if k.Verdict == InForce || k.Verdict == Dangerous {
		k.Verdict = Dangerous
		if !f.IsWarning {
			k.Verdict = Refused
		}
	}
	if k.Reason != "" {
		k.Reason += "; "
	}
	k.Reason += f.Err.Error()
}

// keyOutcome is a setting with the result of its check.
type keyOutcome struct {
	setting
	key     *key // nil: unknown
	warning string
	err     error
}

// explainKeys returns every key of the table, and the unknown ones after them.
func (d *rawConfig) explainKeys() []Key {
	var rows, unknown []Key
	set := map[*key][]keyOutcome{}
	for _, o := range d.outcomes {
		if o.key == nil {
			// without its value: it may be a secret under a mistyped name
			unknown = append(unknown, Key{
				Name: ShortText(o.setting.key), Source: o.where, Verdict: Unknown,
				Reason: "there is no such key",
			})
			continue
		}
		set[o.key] = append(set[o.key], o)
	}
	for i := range keys {
		k := &keys[i]
		if len(set[k]) == 0 {
			rows = append(rows, Key{
				Name: k.name, Value: k.def, Default: cmp.Or(k.def, k.unset), Source: "default",
				Verdict: ByDefault,
			})
		}
		for _, o := range set[k] {
			rows = append(rows, d.explainKey(o))
		}
	}
	return append(rows, unknown...)
}

func (d *rawConfig) explainKey(o keyOutcome) Key {
	k := o.key
	row := Key{
		Name: o.setting.key, Value: ShortText(o.value), Default: cmp.Or(k.def, k.unset), Source: o.where,
		Verdict: InForce,
	}
	if k.hides(o.value) {
		row.Value = ""
	}
	switch {
	case o.err != nil:
		row.Verdict, row.Reason = Refused, o.err.Error()
	case o.warning != "":
		row.Verdict, row.Reason = NoEffect, k.doc
	case d.readableFiles[o.setting.key] != "":
		row.Verdict, row.Reason = Dangerous, d.readableFiles[o.setting.key]
	case k.riskOf != nil:
		if row.Reason = k.riskOf(d); row.Reason != "" {
			row.Verdict = Dangerous
		}
	}
	return row
}

// The risk functions return the danger of a value, or "".

func riskOfTick(d *rawConfig) string {
	if d.config.Tick.Milliseconds() >= minSafeTickMillis {
		return ""
	}
	return fmt.Sprintf("below %d ms a session of 2 ticks may be over before a leader that is cut off is replaced",
		minSafeTickMillis)
}

func riskOfFailover(d *rawConfig) string {
	if d.config.HeartbeatTimeout >= minSafeFailover {
		return ""
	}
	return fmt.Sprintf("below %d ms a busy machine or disk is taken for a dead one, and leadership changes hands",
		minSafeFailover.Milliseconds())
}

func riskOfMinTimeout(d *rawConfig) string {
	if d.config.MinTimeout >= 2*d.config.Tick {
		return ""
	}
	return "below 2 ticks a session may expire while a leader is replaced"
}

func riskOfBuffer(d *rawConfig) string {
	if d.config.Limits.MaxBuffer <= maxSafeBuffer {
		return ""
	}
	danger := "a large request holds up the others, and clients read replies of this length only if they have the same " +
		"setting"
	if d.requestLimitAsked > int64(d.config.Limits.MaxBuffer) {
		danger = fmt.Sprintf("it counts as %d: %s; %s", d.config.Limits.MaxBuffer, boundOfRequests, danger)
	}
	return danger
}

func riskOfConnections(d *rawConfig) string {
	if d.config.Limits.MaxClientConns >= 0 {
		return ""
	}
	return "one client that opens connections in a loop takes all file descriptors"
}

func riskOfAddress(d *rawConfig) string {
	if isLoopback(d.adminListener.host) || d.config.HTTP.ForceHTTPS {
		return ""
	}
	return "without admin.forceHttps=true, passwords and tokens that cross the network can be read on the way"
}

func riskOfLocalReads(d *rawConfig) string {
	if d.config.HTTP.LocalReads != admin.ReadData {
		return ""
	}
	return "every process on this machine reads nodes over HTTP as a client without an identity does, and the names of " +
		"all nodes that are ephemeral, watched or removed"
}

func riskOfMetrics(d *rawConfig) string {
	if !d.metricsListener.enabled || isLoopback(d.metricsListener.host) {
		return ""
	}
	return "anyone who reaches the port can read the metrics"
}

func riskOfACL(d *rawConfig) string {
	if !d.config.Rules.SkipACL {
		return ""
	}
	return "every client may read and change every node"
}

func riskOfPlainMembers(d *rawConfig) string {
	if !d.config.Trust.AcceptPlain {
		return ""
	}
	return "every process that reaches a port for members may be a member; set it to false once every member has " +
		"ensembleSecretFile or sslQuorum"
}

func riskOfAnyHost(d *rawConfig) string {
	if !d.config.Trust.Certificates.AnyHost {
		return ""
	}
	return "any certificate of the authority may speak as any member"
}

// isLoopback reports whether only this machine reaches host.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

const (
	// minSafeTickMillis is the shortest tick without a warning: the clients of a session of 2 ticks notice when there is
	// no leader for 0.6 ticks.
	minSafeTickMillis = 500
	// minSafeFailover is the shortest failover without a warning: the garbage collector, a slow disk or another process
	// may delay a member by some 100 ms.
	minSafeFailover = 150 * time.Millisecond
	// maxSafeBuffer is the longest request without a warning, in bytes: four times ZooKeeper's default.
	maxSafeBuffer = 4 << 20
)
