package shell

import "regexp"

// wordPattern matches a word of a command line as zkCli.sh does: a run of characters that begins with neither
// quote, or everything between two quotes of one kind. A quote within a run is literal, nothing escapes a
// quote, and a quote without its partner is skipped.
var wordPattern = regexp.MustCompile(`[ \t\n\v\f\r]*([^"'][^ \t\n\v\f\r]*|"[^"]*"|'[^']*')[ \t\n\v\f\r]*`)

// splitLine returns the words of a line, without the quotes around them. Like zkCli.sh, it returns one blank
// word for a line of blanks, and none for an empty line.
func splitLine(line string) (words []string) {
	for _, match := range wordPattern.FindAllStringSubmatch(line, -1) {
		words = append(words, unquote(match[1]))
	}
	return words
}

func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
