package shell

import (
	"fmt"
	"strconv"
	"strings"
)

// option is a flag of a verb, written with one hyphen.
type option struct {
	name  string
	takes bool   // it takes a value
	about string // what it is, for messages
}

// options are the flags of a verb. They may be anywhere among its words.
type options struct {
	list      []option
	exclusive bool // at most one of them may be given
	required  bool // one of them must be given
}

// arguments are the words of a command after its options have been taken out.
type arguments struct {
	words  []string // the verb first
	values map[string]string
}

func (a *arguments) has(name string) bool {
	_, ok := a.values[name]
	return ok
}

// path returns the first word after the verb.
func (a *arguments) path() string { return a.words[1] }

// number returns the value of an option as an integer of so many bits, or otherwise if it is not
// given.
func (a *arguments) number(name string, bits int, otherwise int64) (int64, error) {
	text, ok := a.values[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, message(fmt.Sprintf("-%s argument must be %s value", name, map[int]string{32: "an int", 64: "a long"}[bits]))
	}
	return n, nil
}

// version returns the value of -v, or -1, which matches any version.
func (a *arguments) version() (int32, error) {
	v, err := a.number("v", 32, -1)
	return int32(v), err
}

// parser takes the options out of the words of one command.
type parser struct {
	options
	args    arguments
	waiting *option // it was given, and its value has to follow
	chosen  string  // the option that excludes the others
}

// parse reads the words of a command as zkCli.sh does. -ab stands for -a -b if the verb has both. A
// value may be the rest of the word, follow a "=", or be the next word. After "--" there are no
// options.
func (o options) parse(words []string) (*arguments, error) {
	p := parser{options: o, args: arguments{values: map[string]string{}}}
	for i, w := range words {
		if w == "--" && p.waiting == nil {
			p.args.words = append(p.args.words, words[i+1:]...)
			break
		}
		if err := p.take(w); err != nil {
			return nil, err
		}
	}
	if p.waiting != nil {
		return nil, p.missing()
	}
	if o.required && p.chosen == "" {
		return nil, message("Missing required option: [" + o.describe() + "]")
	}
	return &p.args, nil
}

func (o options) describe() string {
	var all []string
	for _, opt := range o.list {
		all = append(all, "-"+opt.name+" "+opt.about)
	}
	return strings.Join(all, ", ")
}

func (o options) find(name string) *option {
	for i := range o.list {
		if o.list[i].name == name {
			return &o.list[i]
		}
	}
	return nil
}

// names reports whether a word begins like an option, so that it is no value of the one before.
func (o options) names(w string) bool {
	name, isOption := strings.CutPrefix(w, "-")
	if !isOption || name == "" {
		return false
	}
	name, _, _ = strings.Cut(name, "=")
	return o.find(name) != nil || name != "" && o.find(name[:1]) != nil
}

func (p *parser) take(w string) error {
	if p.waiting != nil && !p.names(w) {
		p.args.values[p.waiting.name] = w
		p.waiting = nil
		return nil
	}
	if len(w) < 2 || w[0] != '-' {
		p.args.words = append(p.args.words, w)
		return nil
	}
	name, value, valued := strings.Cut(w[1:], "=")
	if opt := p.find(name); opt != nil && (opt.takes || !valued) {
		return p.give(opt, value, valued)
	}
	if valued || w[1] == '-' {
		return unrecognized(w)
	}
	return p.takeEach(w)
}

// takeEach takes a word that holds several options of one letter. The rest of the word after an
// option that takes a value is the value.
func (p *parser) takeEach(w string) error {
	for i := 1; i < len(w); i++ {
		opt := p.find(w[i : i+1])
		if opt == nil {
			return unrecognized(w)
		}
		if opt.takes {
			return p.give(opt, w[i+1:], i+1 < len(w))
		}
		if err := p.give(opt, "", false); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) give(opt *option, value string, valued bool) error {
	if p.waiting != nil {
		return p.missing()
	}
	if p.exclusive {
		if p.chosen != "" && p.chosen != opt.name {
			return message("The option '" + opt.name + "' was specified but an option from this group has already been selected: '" + p.chosen + "'")
		}
		p.chosen = opt.name
	}
	p.args.values[opt.name] = value
	if opt.takes && !valued {
		p.waiting = opt
	}
	return nil
}

func (p *parser) missing() error {
	return message("Missing argument for option: " + p.waiting.name)
}

func unrecognized(w string) error { return message("Unrecognized option: " + w) }
