package config

import (
	"errors"
	"fmt"
	"strings"
)

// key is one row of the table of all keys. In every source a key may have the prefix "zookeeper.", as in ZooKeeper's
// Java properties.
type key struct {
	name string     // as in zoo.cfg; ".N" at the end stands for a number, ".*" for anything
	env  variable   // in ZooKeeper's Docker image; zero: none
	flag flagOption // on the command line; zero: none
	kind kind       // its values, and the field that it sets; zero: any text, which is not kept

	def   string // its default, as in zoo.cfg
	unset string // describes the default of a key without def

	status status
	doc    string // describes a served key; otherwise the reason why it is not served
	// a value accepted without a warning, because Rollcall does the same anyway; "*": every value
	harmlessValue string
	isSecret      bool                      // no message shows the value
	riskOf        func(d *rawConfig) string // the danger of the value in d, or ""; nil: there is none
}

// variable is an environment variable of ZooKeeper's official Docker image.
type variable struct {
	line int // position in the zoo.cfg that the image writes; it gives their order
	name string
	def  string // its value if it is unset or empty and there is no zoo.cfg; "": none
}

// flagOption is a flag of the command line that sets one key.
type flagOption struct{ name, usage string }

type status int

const (
	served   status = iota
	noEffect        // accepted, with a warning
	refused         // ignoring it would make the ensemble less safe than its operator expects
)

// ServedKeys returns the names of the keys that are served, as in the table: ".N" stands for a number.
func ServedKeys() (names []string) {
	for _, k := range keys {
		if k.status == served {
			names = append(names, k.name)
		}
	}
	return names
}

// canonicalName returns a key as the table has it, without the prefix of ZooKeeper's Java properties.
func canonicalName(name string) string { return strings.TrimPrefix(name, "zookeeper.") }

// lookupKey returns the row of a canonical key: the one with its name, or else the first with a
// pattern that fits. It returns nil for an unknown key.
func lookupKey(name string) *key {
	var pattern *key
	for i := range keys {
		k := &keys[i]
		if k.name == name {
			return k
		}
		stem, ok := strings.CutSuffix(k.name, ".*")
		if !ok {
			stem, ok = strings.CutSuffix(k.name, ".N")
		}
		if ok && pattern == nil && strings.HasPrefix(name, stem+".") {
			pattern = k
		}
	}
	return pattern
}

// applySetting checks s and stores its value in d, if the key's kind has a field for it. It returns a warning
// for the operator, or "". Its error names the source of s and the valid values.
func (k *key) applySetting(d *rawConfig, s setting) (warning string, err error) {
	if err := k.parseAndStore(d, s); err != nil {
		return "", k.settingError(s, err.Error())
	}
	if k.status == served || k.harmlessValue == "*" || k.harmlessValue != "" &&
		strings.EqualFold(k.harmlessValue, s.value) {
		return "", nil
	}
	if k.status == noEffect {
		return ShortText(s.key) + " has no effect: " + k.doc, nil
	}
	if k.harmlessValue != "" {
		return "", k.settingError(s, fmt.Sprintf("refused: %s; must be %s", k.doc, k.harmlessValue))
	}
	return "", k.settingError(s, fmt.Sprintf("refused: %s; leave it out", k.doc))
}

// parseAndStore checks s by the key's kind. Its error names the valid values.
func (k *key) parseAndStore(d *rawConfig, s setting) error {
	if k.kind.parse == nil {
		return nil
	}
	err := k.kind.parse(d, s)
	if errors.Is(err, errAllowed) {
		return fmt.Errorf("must be %s", k.kind.allowed)
	}
	return err
}

// hides reports whether no message may show a value of the key.
func (k *key) hides(value string) bool {
	return k.isSecret || k.kind.mayHoldSecret != nil && k.kind.mayHoldSecret(value)
}

// settingError returns an error about s that begins with its source.
func (k *key) settingError(s setting, what string) error {
	if k.hides(s.value) {
		return fmt.Errorf("%s: %s: %s", s.where, ShortText(s.key), what)
	}
	return fmt.Errorf("%s: %s=%s: %s", s.where, ShortText(s.key), ShortText(s.value), what)
}

// ShortText returns a value cut to the length of a log line, without control characters.
func ShortText(value string) string {
	const most = 80
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, value)
}
