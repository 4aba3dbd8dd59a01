package shell

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// completeLastWord completes the last word of text: a verb, a flag of a verb, or the path of a node. It
// returns text with the common prefix of all choices, and the choices. children returns the names of a node's
// children, or nil if it fails.
func completeLastWord(text string, verbs map[string]*verb, children func(path string) []string) (completed string,
	choices []string,
) {
	start, quote := lastWordStart(text)
	before, word := text[:start], strings.TrimPrefix(text[start:], quote)
	words := splitLine(strings.TrimSpace(before))
	var all []string
	switch {
	case len(words) == 0 && quote == "":
		all = slices.Collect(maps.Keys(verbs))
	case strings.HasPrefix(word, "/"):
		dir := word[:strings.LastIndexByte(word, '/')+1]
		for _, name := range children(cmp.Or(strings.TrimSuffix(dir, "/"), "/")) {
			if isTypable(name, quote) {
				all = append(all, dir+name)
			}
		}
	case strings.HasPrefix(word, "-") && len(words) > 0:
		all = flagsOf(verbs[words[0]])
	}
	choices = slices.DeleteFunc(all, func(choice string) bool { return !strings.HasPrefix(choice, word) })
	if len(choices) == 0 {
		return text, nil
	}
	slices.Sort(choices)
	common := commonPrefix(choices)
	if quote == "" && strings.ContainsFunc(common, unicode.IsSpace) {
		quote = quoteFor(common)
	}
	if quote == "" && len(choices) == 1 && !strings.HasPrefix(word, "/") {
		common += " "
	}
	return before + quote + common, choices
}

// lastWordStart returns the start of the last word of text, as splitLine reads it, and its opening quote, if any.
// The word may be empty.
func lastWordStart(text string) (start int, quote string) {
	i := 0
	for i < len(text) {
		for i < len(text) && isBlank(text[i]) {
			i++
		}
		start = i
		if i == len(text) {
			break
		}
		if c := text[i]; c == '"' || c == '\'' {
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return start, string(c)
			}
			i += end + 2
			start = i
			continue
		}
		for i < len(text) && !isBlank(text[i]) {
			i++
		}
	}
	return start, ""
}

func isBlank(c byte) bool { return strings.IndexByte(" \t\n\v\f\r", c) >= 0 }

// isTypable reports whether a name can be typed as part of a word with this quote. If quote is "",
// completeLastWord adds one where needed.
func isTypable(name, quote string) bool {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }) {
		return false
	}
	if quote != "" {
		return !strings.Contains(name, quote)
	}
	return quoteFor(name) != "" || !strings.Contains(name, " ")
}

// quoteFor returns a quote that text does not contain, or "" if it contains both.
func quoteFor(text string) string {
	for _, quote := range []string{`"`, `'`} {
		if !strings.Contains(text, quote) {
			return quote
		}
	}
	return ""
}

// flagsOf returns the flags of a verb, which may be nil.
func flagsOf(v *verb) (all []string) {
	if v == nil {
		return nil
	}
	for _, opt := range v.options.list {
		all = append(all, "-"+opt.name)
	}
	return all
}

// commonPrefix returns the longest common prefix of at least one text. It does not split characters; an
// invalid byte counts as one.
func commonPrefix(texts []string) string {
	common := texts[0]
	for _, text := range texts[1:] {
		for !strings.HasPrefix(text, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	return common
}
