package shell

import "regexp"

// wordPattern is a word of a command line, as zkCli.sh reads one. It is a run of characters that begins
// with neither quote, or everything between two quotes of one kind. A quote within a run stands for
// itself, nothing escapes a quote, and a quote without its partner is skipped.
var wordPattern = regexp.MustCompile(`[ \t\n\v\f\r]*([^"'][^ \t\n\v\f\r]*|"[^"]*"|'[^']*')[ \t\n\v\f\r]*`)

// splitLine returns the words of a line, without the quotes around them. A line of blanks has one word,
// a blank, which is what zkCli.sh makes of it. The result is empty if the line is.
func splitLine(line string) (words []string) {
	for _, match := range wordPattern.FindAllStringSubmatch(line, -1) {
		words = append(words, unquote(match[1]))
	}
	return words
}

// unquote removes a pair of quotes around s.
func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
