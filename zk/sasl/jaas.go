package sasl

import (
	"fmt"
	"strings"
)

const (
	// MaxFile is the longest JAAS file, in bytes: some ten thousand users.
	MaxFile = 1 << 20
	// maxName is the longest name of a user, in bytes. Each transaction of a client carries its name.
	maxName = 1 << 10

	// digestModule is the login module whose options are the users.
	digestModule = "org.apache.zookeeper.server.auth.DigestLoginModule"
	// userPrefix is before the name of a user in an option.
	userPrefix = "user_"
)

// ParseJAAS returns the users in a section of a JAAS file, with their passwords. The syntax is that
// of Java:
//
//	Server {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    user_super="adminsecret"
//	    user_bob="bobsecret";
//	};
//
// Other sections must be well-formed, too, and are ignored otherwise. Errors begin with the line, and
// show no values.
func ParseJAAS(text []byte, section string) (map[string]string, error) {
	p, err := readJAAS(text, section)
	switch {
	case err != nil:
		return nil, err
	case len(p.users) == 0:
		return nil, fmt.Errorf("section %s has no user; add an option such as user_bob=\"password\" to its %s", shown(section), digestModule)
	}
	return p.users, nil
}

// ParseClient returns the user and the password in a section of a JAAS file with which a client logs in:
//
//	Client {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    username="bob"
//	    password="bobsecret";
//	};
//
// Other sections must be well-formed, too, and are ignored otherwise. Errors begin with the line, and
// show no values.
func ParseClient(text []byte, section string) (name, password string, err error) {
	p, err := readJAAS(text, section)
	if err != nil {
		return "", "", err
	}
	for _, key := range []string{"username", "password"} {
		if p.options[key] == "" {
			return "", "", fmt.Errorf("section %s has no %s; add the option %[2]s=\"...\" to its %s", shown(section), key, digestModule)
		}
	}
	return p.options["username"], p.options["password"], nil
}

// readJAAS reads a JAAS file, which must have the section.
func readJAAS(text []byte, section string) (*jaas, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("the file has over %d bytes; a JAAS file is shorter", MaxFile)
	}
	p := &jaas{rest: string(text), line: 1, section: section, options: map[string]string{}}
	p.next()
	seen := map[string]bool{}
	for p.token.kind != endOfFile {
		name := p.expect(word, "the name of a section")
		if p.err == nil && seen[name] {
			p.fail(fmt.Sprintf("section %s is there twice; allowed is once", shown(name)))
		}
		seen[name] = true
		p.readSection(name == section)
		if p.err != nil {
			return nil, p.err
		}
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case !seen[section]:
		return nil, fmt.Errorf("no section %s in the file; add it", shown(section))
	}
	return p, nil
}

// jaas reads a JAAS file. It keeps its first error; after that, its token is endOfFile.
type jaas struct {
	rest    string // what follows token
	line    int    // of the end of token
	before  int    // the line on which the token before it ends
	token   token
	section string // the one that is wanted
	users   map[string]string
	options map[string]string // of the section's modules, the last value of each
	err     error
}

// tokenKind is a mark such as '{', or one of the kinds below.
type tokenKind rune

const (
	endOfFile tokenKind = -1 - iota
	word                // also one in double quotes
)

// token is a part of a JAAS file. line is the one on which it begins.
type token struct {
	kind tokenKind
	text string // of a word
	line int
}

// readSection reads a section after its name. wanted says that it is the one that is wanted.
func (p *jaas) readSection(wanted bool) {
	p.expect('{', "{")
	for p.err == nil && p.token.kind != '}' {
		p.readModule(wanted)
	}
	p.expect('}', "}")
	p.expect(';', "; after the } of a section")
}

// flags are the words that may follow the class of a login module.
const flags = " required requisite sufficient optional "

// readModule reads a login module and its options.
func (p *jaas) readModule(wanted bool) {
	at := p.token.line
	class := p.expect(word, "the class of a login module, or }")
	if wanted && p.err == nil {
		p.checkModule(class, at)
	}
	at = p.token.line
	if flag := p.expect(word, "required, requisite, sufficient or optional"); p.err == nil && !strings.Contains(flags, " "+strings.ToLower(flag)+" ") {
		p.failAt(at, "after the class of a login module; allowed is required, requisite, sufficient or optional")
	}
	for p.err == nil && p.token.kind != ';' {
		if p.token.kind == '}' || p.token.kind == endOfFile {
			p.failAt(p.before, noSemicolon)
			return
		}
		p.readOption(wanted)
	}
	p.expect(';', "; after the last option")
}

// noSemicolon is said of the line on which a login module ends.
const noSemicolon = "the login module ends here without ; after its last option; add the ;"

// checkModule refuses a login module that the wanted section cannot have.
func (p *jaas) checkModule(class string, line int) {
	switch {
	case class == digestModule:
	case strings.HasSuffix(class, ".Krb5LoginModule"):
		p.failAt(line, fmt.Sprintf("section %s uses Kerberos (Krb5LoginModule), which is not supported; allowed is %s", shown(p.section), digestModule))
	default:
		p.failAt(line, fmt.Sprintf("section %s has the login module %s; allowed is %s", shown(p.section), shown(class), digestModule))
	}
}

// readOption reads key="value".
func (p *jaas) readOption(wanted bool) {
	at := p.token.line
	before := p.before
	key := p.expect(word, "an option, or ;")
	if p.token.kind == word && strings.Contains(key, ".") { // the class of the next login module, and its flag
		p.failAt(before, noSemicolon)
	}
	p.expect('=', "= after the name of an option")
	value := p.expect(word, "a value in double quotes")
	if p.err == nil && strings.Contains(value, "${") {
		p.failAt(at, "a value with ${: Java puts a property there, which is not done here; write the value itself")
	}
	if wanted && p.err == nil {
		p.options[key] = value
	}
	if name, isUser := strings.CutPrefix(key, userPrefix); p.err == nil && wanted && isUser {
		p.addUser(name, value, at)
	}
}

func (p *jaas) addUser(name, password string, line int) {
	_, twice := p.users[name]
	switch {
	case name == "" || len(name) > maxName || !ValidName(name):
		p.failAt(line, fmt.Sprintf("user_ and a name that no user can have; allowed are 1 to %d bytes, with at most one @ and no / after it", maxName))
		return
	case twice:
		p.failAt(line, fmt.Sprintf("user %s is there twice; allowed is once", shown(name)))
		return
	case p.users == nil:
		p.users = map[string]string{}
	}
	p.users[name] = password
}

// expect returns the text of the next token, which must be of this kind, and goes on to the one after
// it. what says in an error what is allowed.
func (p *jaas) expect(kind tokenKind, what string) string {
	if p.err == nil && p.token.kind != kind {
		p.failAt(p.token.line, p.token.String()+"; allowed is "+what)
	}
	if p.err != nil {
		return ""
	}
	text := p.token.text
	p.before = p.line
	p.next()
	return text
}

// String returns what an error may show of the token: nothing of a word, which may be a password.
func (t token) String() string {
	switch t.kind {
	case endOfFile:
		return "the end of the file"
	case word:
		return "a word or value"
	}
	return fmt.Sprintf("%q", rune(t.kind))
}

func (p *jaas) fail(what string) { p.failAt(p.line, what) }

func (p *jaas) failAt(line int, what string) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s", line, what)
	}
	p.rest, p.token = "", token{kind: endOfFile, line: line}
}

// next reads the next token.
func (p *jaas) next() {
	p.skip()
	p.token = token{kind: endOfFile, line: p.line}
	if p.rest == "" {
		return
	}
	switch c := p.rest[0]; {
	case c == '"':
		p.token.kind, p.token.text = word, p.quoted()
	case isWordByte(c):
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < 0x80 && !isWordByte(byte(r)) })
		if end < 0 {
			end = len(p.rest)
		}
		p.token.kind, p.token.text, p.rest = word, p.rest[:end], p.rest[end:]
	default:
		p.token.kind, p.rest = tokenKind(c), p.rest[1:]
	}
}

// isWordByte reports whether a word outside quotes may have c.
func isWordByte(c byte) bool {
	return c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".$_-*", c) >= 0
}

// skip skips white space and comments. As in Java, a slash begins a comment up to the end of the
// line, also if no other slash follows.
func (p *jaas) skip() {
	for p.rest != "" {
		switch {
		case p.rest[0] <= ' ':
			p.advance(1)
		case strings.HasPrefix(p.rest, "/*"):
			end := strings.Index(p.rest[2:], "*/")
			if end < 0 {
				p.fail("a comment that begins with /* and has no end; allowed is */ after it")
				return
			}
			p.advance(end + 4)
		case p.rest[0] == '/':
			end := strings.IndexByte(p.rest, '\n')
			if end < 0 {
				end = len(p.rest)
			}
			p.advance(end)
		default:
			return
		}
	}
}

// advance skips n bytes and counts their lines.
func (p *jaas) advance(n int) {
	p.line += strings.Count(p.rest[:n], "\n")
	p.rest = p.rest[n:]
}

// escapes are the letters that mean another character after a backslash.
const escapes = "a\ab\bf\fn\nr\rt\tv\v"

// quoted reads a text in double quotes. A backslash stands before up to three octal digits, one of
// the letters in escapes, or a character that counts as it is.
func (p *jaas) quoted() string {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		case c == '\n' || c == '\r':
			p.fail("a text in double quotes has no quote at its end; allowed is one line")
			return ""
		case c != '\\' || i+1 == len(p.rest):
			b.WriteByte(c)
			continue
		}
		i++
		if char, n := octal(p.rest[i:]); n > 0 {
			b.WriteRune(char)
			i += n - 1
			continue
		}
		c = p.rest[i]
		if at := strings.IndexByte(escapes, c); at >= 0 && at%2 == 0 {
			c = escapes[at+1]
		}
		b.WriteByte(c)
	}
	p.fail("a text in double quotes has no quote at its end; allowed is one line")
	return ""
}

// octal returns the character that the octal digits at the beginning of text give, at most \377, and
// how many digits there are.
func octal(text string) (char rune, n int) {
	for n < len(text) && n < 3 && '0' <= text[n] && text[n] <= '7' && (n < 2 || char <= 0o37) {
		char = char*8 + rune(text[n]-'0')
		n++
	}
	return char, n
}
