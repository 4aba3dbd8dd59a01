package shell

import (
	"fmt"
	"strconv"
	"strings"
)

// option is a flag of a verb, written with one hyphen.
type option struct {
	name        string
	takesValue  bool   // it takes a value
	description string // for messages
}

// options are the flags of a verb. They may be anywhere among its words.
type options struct {
	list      []option
	exclusive bool // at most one of them may be given
	required  bool // one of them must be given
}

// arguments are the words of a command without its options.
type arguments struct {
	words        []string // the verb first
	optionValues map[string]string
}

func (a *arguments) hasFlag(name string) bool {
	_, ok := a.optionValues[name]
	return ok
}

// path returns the first word after the verb.
func (a *arguments) path() string { return a.words[1] }

// intFlag returns the value of an option as an integer of this many bits, or otherwise if the option is
// missing.
func (a *arguments) intFlag(name string, bits int, otherwise int64) (int64, error) {
	text, ok := a.optionValues[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, zkCliError(fmt.Sprintf("-%s argument must be %s value", name,
			map[int]string{32: "an int", 64: "a long"}[bits]))
	}
	return n, nil
}

// expectedVersion returns the value of -v, or -1, which matches any version.
func (a *arguments) expectedVersion() (int32, error) {
	v, err := a.intFlag("v", 32, -1)
	return int32(v), err
}

// optionParser separates the options of one command from its words.
type optionParser struct {
	options
	args          arguments
	awaitingValue *option // its value must follow
	selected      string  // the given option of an exclusive group
}

// parse parses words as zkCli.sh does. -ab stands for -a -b if the verb has both. A value is the rest of the
// word, follows "=", or is the next word. "--" ends the options.
func (o options) parse(words []string) (*arguments, error) {
	p := optionParser{options: o, args: arguments{optionValues: map[string]string{}}}
	for i, w := range words {
		if w == "--" && p.awaitingValue == nil {
			p.args.words = append(p.args.words, words[i+1:]...)
			break
		}
		if err := p.parseWord(w); err != nil {
			return nil, err
		}
	}
	if p.awaitingValue != nil {
		return nil, p.missingValue()
	}
	if o.required && p.selected == "" {
		return nil, zkCliError("Missing required option: [" + o.describeAll() + "]")
	}
	return &p.args, nil
}

func (o options) describeAll() string {
	var all []string
	for _, opt := range o.list {
		all = append(all, "-"+opt.name+" "+opt.description)
	}
	return strings.Join(all, ", ")
}

func (o options) findOption(name string) *option {
	for i := range o.list {
		if o.list[i].name == name {
			return &o.list[i]
		}
	}
	return nil
}

// looksLikeOption reports whether a word begins with an option of the verb, and so is no value.
func (o options) looksLikeOption(w string) bool {
	name, isOption := strings.CutPrefix(w, "-")
	if !isOption || name == "" {
		return false
	}
	name, _, _ = strings.Cut(name, "=")
	return o.findOption(name) != nil || name != "" && o.findOption(name[:1]) != nil
}

func (p *optionParser) parseWord(w string) error {
	if p.awaitingValue != nil && !p.looksLikeOption(w) {
		p.args.optionValues[p.awaitingValue.name] = w
		p.awaitingValue = nil
		return nil
	}
	if len(w) < 2 || w[0] != '-' {
		p.args.words = append(p.args.words, w)
		return nil
	}
	name, value, valued := strings.Cut(w[1:], "=")
	if opt := p.findOption(name); opt != nil && (opt.takesValue || !valued) {
		return p.setOption(opt, value, valued)
	}
	if valued || w[1] == '-' {
		return unrecognizedOption(w)
	}
	return p.parseLetters(w)
}

// parseLetters takes a word of several one-letter options. If an option takes a value, the rest of the word is
// its value.
func (p *optionParser) parseLetters(w string) error {
	for i := 1; i < len(w); i++ {
		opt := p.findOption(w[i : i+1])
		if opt == nil {
			return unrecognizedOption(w)
		}
		if opt.takesValue {
			return p.setOption(opt, w[i+1:], i+1 < len(w))
		}
		if err := p.setOption(opt, "", false); err != nil {
			return err
		}
	}
	return nil
}

func (p *optionParser) setOption(opt *option, value string, valued bool) error {
	if p.awaitingValue != nil {
		return p.missingValue()
	}
	if p.exclusive {
		if p.selected != "" && p.selected != opt.name {
			return zkCliError("The option '" + opt.name +
				"' was specified but an option from this group has already been selected: '" + p.selected + "'")
		}
		p.selected = opt.name
	}
	p.args.optionValues[opt.name] = value
	if opt.takesValue && !valued {
		p.awaitingValue = opt
	}
	return nil
}

func (p *optionParser) missingValue() error {
	return zkCliError("Missing argument for option: " + p.awaitingValue.name)
}

func unrecognizedOption(w string) error { return zkCliError("Unrecognized option: " + w) }
