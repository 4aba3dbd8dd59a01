package kerberos

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	// MaxRules is the longest list of rules, in bytes.
	MaxRules = 64 << 10
	// maxFormatted limits the bytes that a rule makes of a name, since a format or a replacement may repeat it.
	maxFormatted = 4 * MaxName
)

// Names makes the names of clients of their principals, as ZooKeeper does: the rules make a short name, to which the host and the realm
// are appended unless they are removed.
type Names struct {
	Rules        Rules
	DefaultRealm string // of the rule DEFAULT
	RemoveHost   bool
	RemoveRealm  bool
}

// NameOf returns the name of a principal, of the form name@realm or service/host@realm.
func (n Names) NameOf(principal string) (string, error) {
	whole, realm, _ := strings.Cut(principal, "@")
	parts := strings.Split(whole, "/")
	name, err := n.Rules.apply(parts, realm, n.DefaultRealm)
	if err != nil {
		return "", err
	}
	if len(parts) > 1 && !n.RemoveHost {
		name += "/" + parts[1]
	}
	if !n.RemoveRealm {
		name += "@" + realm
	}
	if len(name) > MaxName || name == "" {
		return "", faultf(NoName, "the name of %s has %d bytes; must be 1 to %d", quoteShort(principal), len(name), MaxName)
	}
	return name, nil
}

// Rules are those of auth_to_local. The first one that fits a principal makes its short name. If there are none, they are DEFAULT alone.
type Rules struct{ rules []rule }

// rule makes a name of principals with a number of parts.
type rule struct {
	text      string
	isDefault bool
	numParts  int
	format    []piece
	match     *regexp.Regexp // of the whole formatted name; nil: every name
	from      *regexp.Regexp // nil: the name is not changed
	to        []piece
	repeat    bool
}

// piece is a part of a format or of a replacement: a text, or the number of a parameter or a group.
type piece struct {
	text   string
	number int // -1: text
}

// ruleSyntax is that of ZooKeeper.
var ruleSyntax = regexp.MustCompile(`^\s*((DEFAULT)|(RULE:\[(\d*):([^\]]*)\](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?))`)

// ParseRules parses rules of the form DEFAULT or RULE:[n:format](regexp)s/pattern/replacement/g, with white space between them.
func ParseRules(text string) (Rules, error) {
	if len(text) > MaxRules {
		return Rules{}, fmt.Errorf("the rules have %d bytes; must be at most %d", len(text), MaxRules)
	}
	var all Rules
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		found := ruleSyntax.FindStringSubmatchIndex(rest)
		if found == nil {
			return Rules{}, fmt.Errorf("no rule at %s; must be DEFAULT or RULE:[n:format](regexp)s/pattern/replacement/g", quoteShort(rest))
		}
		field := func(group int) string {
			if found[2*group] < 0 {
				return ""
			}
			return rest[found[2*group]:found[2*group+1]]
		}
		r := rule{text: field(1), isDefault: field(2) != ""}
		if !r.isDefault {
			if err := r.parse(field, found[2*6] >= 0, found[2*8] >= 0); err != nil {
				return Rules{}, fmt.Errorf("rule %s: %w", quoteShort(r.text), err)
			}
		}
		all.rules, rest = append(all.rules, r), rest[found[1]:]
	}
	return all, nil
}

// parse parses the fields of a rule: 4 is the number of parts, 5 the format, 7 the regexp, 9 the pattern, 10 the replacement, 11 the g.
func (r *rule) parse(field func(int) string, hasMatch, hasPattern bool) (err error) {
	if r.numParts, err = strconv.Atoi(field(4)); err != nil {
		return fmt.Errorf("the number of parts is %q; must be a whole number", field(4))
	}
	if r.format, err = parsePieces(field(5), r.numParts, false); err != nil {
		return fmt.Errorf("the format: %w", err)
	}
	if hasMatch {
		if r.match, err = regexp.Compile(`\A(?:` + field(7) + `)\z`); err != nil {
			return fmt.Errorf("the expression in parentheses: %w (Go's expressions have no look-around and no references back)", err)
		}
	}
	if !hasPattern {
		return nil
	}
	if r.from, err = regexp.Compile(field(9)); err != nil {
		return fmt.Errorf("the pattern: %w (Go's expressions have no look-around and no references back)", err)
	}
	if r.to, err = parsePieces(field(10), r.from.NumSubexp(), true); err != nil {
		return fmt.Errorf("the replacement: %w", err)
	}
	r.repeat = field(11) != ""
	return nil
}

// parsePieces parses a format or, with isReplacement, a replacement of Java. In a replacement a backslash stands before a character that
// counts as it is, and a number ends where the next digit would make it larger than most.
func parsePieces(text string, most int, isReplacement bool) (pieces []piece, err error) {
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			pieces = append(pieces, piece{literal.String(), -1})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && isReplacement && i+1 == len(text):
			return nil, errors.New("a backslash at the end")
		case c == '\\' && isReplacement:
			i++
			literal.WriteByte(text[i])
		case c != '$':
			literal.WriteByte(c)
		default:
			number, digits := 0, 0
			for i+1 < len(text) && '0' <= text[i+1] && text[i+1] <= '9' {
				next := number*10 + int(text[i+1]-'0')
				if isReplacement && digits > 0 && next > most {
					break
				}
				number, digits, i = min(next, MaxRules), digits+1, i+1
			}
			if digits == 0 || number > most {
				return nil, fmt.Errorf("a $ needs a number from 0 to %d", most)
			}
			flush()
			pieces = append(pieces, piece{number: number})
		}
	}
	flush()
	return pieces, nil
}

// apply returns the short name of a principal.
func (all Rules) apply(parts []string, realm, defaultRealm string) (string, error) {
	rules := all.rules
	if rules == nil {
		rules = []rule{{text: "DEFAULT", isDefault: true}}
	}
	principal := strings.Join(parts, "/") + "@" + realm
	parameters := append([]string{realm}, parts...)
	for _, r := range rules {
		name, fits, err := r.apply(parameters, defaultRealm)
		switch {
		case err != nil:
			return "", faultf(NoName, "rule %s of security.auth_to_local, for %s: %v", quoteShort(r.text), quoteShort(principal), err)
		case !fits:
			continue
		case strings.ContainsAny(name, "/@"):
			return "", faultf(NoName, "rule %s of security.auth_to_local makes %s of %s; a name must have no slash and no at sign",
				quoteShort(r.text), quoteShort(name), quoteShort(principal))
		}
		return name, nil
	}
	return "", faultf(NoName, "no rule of security.auth_to_local fits %s; DEFAULT fits principals of the realm %s", quoteShort(principal), quoteShort(defaultRealm))
}

// apply returns what the rule makes of a principal, whose realm is the first parameter. fits is false if the rule is for others.
func (r *rule) apply(parameters []string, defaultRealm string) (name string, fits bool, err error) {
	if r.isDefault {
		return parameters[1], parameters[0] == defaultRealm, nil
	}
	if len(parameters)-1 != r.numParts {
		return "", false, nil
	}
	if name, err = join(r.format, parameters); err != nil {
		return "", false, err
	}
	if r.match != nil && !r.match.MatchString(name) {
		return "", false, nil
	}
	if r.from != nil {
		name, err = r.replace(name)
	}
	return name, true, err
}

// join joins pieces with the values of their numbers.
func join(pieces []piece, values []string) (string, error) {
	var b strings.Builder
	for _, p := range pieces {
		if p.number >= 0 {
			p.text = values[p.number]
		}
		if b.WriteString(p.text); b.Len() > maxFormatted {
			return "", fmt.Errorf("it makes over %d bytes", maxFormatted)
		}
	}
	return b.String(), nil
}

// replace replaces what fits the pattern: the first, or all with g.
func (r *rule) replace(name string) (string, error) {
	count := 1
	if r.repeat {
		count = -1
	}
	var b strings.Builder
	end := 0
	for _, found := range r.from.FindAllStringSubmatchIndex(name, count) {
		groups := make([]string, len(found)/2)
		for i := range groups {
			if found[2*i] >= 0 {
				groups[i] = name[found[2*i]:found[2*i+1]]
			}
		}
		with, err := join(r.to, groups)
		if err != nil {
			return "", err
		}
		b.WriteString(name[end:found[0]])
		b.WriteString(with)
		if end = found[1]; b.Len() > maxFormatted {
			return "", fmt.Errorf("it makes over %d bytes", maxFormatted)
		}
	}
	b.WriteString(name[end:])
	return b.String(), nil
}
