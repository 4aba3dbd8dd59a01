package sasl

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// MaxJAASBytes limits a JAAS file to some ten thousand users.
	MaxJAASBytes = 1 << 20
	// MaxUserName is the longest name of a user, in bytes. Each transaction of a client carries its name.
	MaxUserName = 1 << 10

	// digestModule is the login module whose options are the users.
	digestModule = "org.apache.zookeeper.server.auth.DigestLoginModule"
	// kerberosModule is the login module of a service with a keytab.
	kerberosModule = "com.sun.security.auth.module.Krb5LoginModule"
	// userPrefix precedes the name of a user in an option.
	userPrefix = "user_"
)

// ErrNoSection means that a JAAS file is well-formed and lacks the section.
var ErrNoSection = errors.New("no section")

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
	p, err := readJAAS(text, section, false)
	if err != nil {
		return nil, err
	}
	return p.requireUsers()
}

// ParseClientLogin returns a client's user and password from a section of a JAAS file:
//
//	Client {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    username="bob"
//	    password="bobsecret";
//	};
//
// It reads the file as ParseJAAS does.
func ParseClientLogin(text []byte, section string) (name, password string, err error) {
	p, err := readJAAS(text, section, false)
	if err != nil {
		return "", "", err
	}
	for _, key := range []string{"username", "password"} {
		if p.moduleOptions[key] == "" {
			return "", "", fmt.Errorf("section %s has no %s; add the option %[2]s=\"...\" to its %s",
				quoteShort(section), key, digestModule)
		}
	}
	return p.moduleOptions["username"], p.moduleOptions["password"], nil
}

// ServerLogin is how a server's clients log in: by the passwords of users (DIGEST-MD5), or by Kerberos. One of them is set.
type ServerLogin struct {
	Users    map[string]string
	Kerberos *KerberosLogin
}

// KerberosLogin is a principal with its keytab.
type KerberosLogin struct{ Keytab, Principal string }

// ParseServerLogin returns how clients log in from a section of a JAAS file. With Kerberos it is:
//
//	Server {
//	    com.sun.security.auth.module.Krb5LoginModule required
//	    useKeyTab=true
//	    keyTab="/etc/zookeeper.keytab"
//	    storeKey=true
//	    useTicketCache=false
//	    principal="zookeeper/host@REALM";
//	};
//
// As in ZooKeeper, the section decides between the two. It reads the file as ParseJAAS does.
func ParseServerLogin(text []byte, section string) (ServerLogin, error) {
	p, err := readJAAS(text, section, true)
	switch {
	case err != nil:
		return ServerLogin{}, err
	case p.hasKerberos && len(p.users) > 0:
		return ServerLogin{}, fmt.Errorf("section %s has users and %s; leave one of them out, because clients log in by one mechanism alone",
			quoteShort(section), kerberosModule)
	case p.hasKerberos:
		login, err := p.kerberosLogin("useKeyTab", "storeKey") // Java would not keep the key for a server otherwise
		return ServerLogin{Kerberos: login}, err
	}
	users, err := p.requireUsers()
	return ServerLogin{Users: users}, err
}

// ParseClientKerberos returns a client's principal and keytab from a section of a JAAS file with Krb5LoginModule and useKeyTab=true. It
// returns nil if the section is for passwords. With useTicketCache=true, the keytab is empty. It reads the file as ParseJAAS does.
func ParseClientKerberos(text []byte, section string) (*KerberosLogin, error) {
	p, err := readJAAS(text, section, true)
	switch {
	case err != nil:
		return nil, err
	case !p.hasKerberos:
		return nil, nil
	case p.isTrue("useTicketCache") && !p.isTrue("useKeyTab"):
		return &KerberosLogin{Principal: p.moduleOptions["principal"]}, nil
	}
	return p.kerberosLogin("useKeyTab")
}

// UsesKerberos reports whether a section of a JAAS file is well-formed and has Krb5LoginModule.
func UsesKerberos(text []byte, section string) bool {
	p, err := readJAAS(text, section, true)
	return err == nil && p.hasKerberos
}

// requireUsers returns the users of the section, of which there must be one.
func (p *jaasParser) requireUsers() (map[string]string, error) {
	if len(p.users) == 0 {
		return nil, fmt.Errorf("section %s has no user; add an option such as user_bob=\"password\" to its %s",
			quoteShort(p.wantedSection), digestModule)
	}
	return p.users, nil
}

func (p *jaasParser) isTrue(option string) bool {
	return strings.EqualFold(p.moduleOptions[option], "true")
}

// kerberosLogin returns the principal and the keytab of the section, in which these options must be true.
func (p *jaasParser) kerberosLogin(options ...string) (*KerberosLogin, error) {
	for _, option := range options {
		if !p.isTrue(option) {
			return nil, fmt.Errorf("section %s needs %s=true in its %s", quoteShort(p.wantedSection), option, kerberosModule)
		}
	}
	keytab := p.moduleOptions["keyTab"]
	if len(keytab) > len(filePrefix) && strings.EqualFold(keytab[:len(filePrefix)], filePrefix) {
		keytab = keytab[len(filePrefix):]
	}
	switch {
	case keytab == "":
		return nil, fmt.Errorf("section %s has no keytab; add the option keyTab=\"/path\"", quoteShort(p.wantedSection))
	case p.moduleOptions["principal"] == "":
		return nil, fmt.Errorf("section %s has no principal; add the option principal=\"zookeeper/host@REALM\"", quoteShort(p.wantedSection))
	}
	return &KerberosLogin{Keytab: keytab, Principal: p.moduleOptions["principal"]}, nil
}

// filePrefix may precede the path of a keytab.
const filePrefix = "FILE:"

// readJAAS reads a JAAS file, which must have the section. withKerberos allows the section to have Krb5LoginModule.
func readJAAS(text []byte, section string, withKerberos bool) (*jaasParser, error) {
	if len(text) > MaxJAASBytes {
		return nil, fmt.Errorf("the file has over %d bytes; a JAAS file is shorter", MaxJAASBytes)
	}
	p := &jaasParser{unread: string(text), line: 1, wantedSection: section, moduleOptions: map[string]string{}, withKerberos: withKerberos}
	p.scanToken()
	seen := map[string]bool{}
	for p.token.kind != endOfFile {
		name := p.expect(wordToken, "the name of a section")
		if p.err == nil && seen[name] {
			p.fail(fmt.Sprintf("duplicate section %s", quoteShort(name)))
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
		return nil, fmt.Errorf("%w %s in the file; add it", ErrNoSection, quoteShort(section))
	}
	return p, nil
}

// jaasParser keeps its first error; after that, its token is endOfFile.
type jaasParser struct {
	unread        string // after token
	line          int    // at the end of token
	previousLine  int    // at the end of the token before it
	token         token
	wantedSection string
	withKerberos  bool // wantedSection may have Krb5LoginModule
	hasKerberos   bool // it has
	users         map[string]string
	moduleOptions map[string]string // of wantedSection, the last value of each
	err           error
}

// tokenKind is a mark such as '{', or one of the kinds below.
type tokenKind rune

const (
	endOfFile tokenKind = -1 - iota
	wordToken           // also one in double quotes
)

type token struct {
	kind tokenKind
	text string // of a word
	line int
}

// readSection reads a section after its name.
func (p *jaasParser) readSection(wanted bool) {
	p.expect('{', "{")
	for p.err == nil && p.token.kind != '}' {
		p.readModule(wanted)
	}
	p.expect('}', "}")
	p.expect(';', "; after the } of a section")
}

// moduleFlags are the words that may follow the class of a login module.
const moduleFlags = " required requisite sufficient optional "

func (p *jaasParser) readModule(wanted bool) {
	at := p.token.line
	class := p.expect(wordToken, "the class of a login module, or }")
	if wanted && p.err == nil {
		p.checkModule(class, at)
	}
	at = p.token.line
	flag := p.expect(wordToken, "required, requisite, sufficient or optional")
	if p.err == nil && !strings.Contains(moduleFlags, " "+strings.ToLower(flag)+" ") {
		p.failAt(at, "the word after the class of a login module must be required, requisite, sufficient or optional")
	}
	for p.err == nil && p.token.kind != ';' {
		if p.token.kind == '}' || p.token.kind == endOfFile {
			p.failAt(p.previousLine, noSemicolon)
			return
		}
		p.readOption(wanted)
	}
	p.expect(';', "; after the last option")
}

// noSemicolon is an error at the end of a login module.
const noSemicolon = "the login module ends here without ; after its last option; add the ;"

// checkModule rejects a login module that the wanted section cannot have.
func (p *jaasParser) checkModule(class string, line int) {
	switch {
	case class == digestModule:
	case class == kerberosModule && p.withKerberos:
		p.hasKerberos = true
	case strings.HasSuffix(class, ".Krb5LoginModule") && p.withKerberos:
		p.failAt(line, fmt.Sprintf("section %s has the login module %s; must be %s", quoteShort(p.wantedSection), quoteShort(class), kerberosModule))
	case strings.HasSuffix(class, ".Krb5LoginModule"):
		p.failAt(line, fmt.Sprintf("section %s uses Kerberos (Krb5LoginModule), which is not supported here; must be %s",
			quoteShort(p.wantedSection), digestModule))
	default:
		p.failAt(line, fmt.Sprintf("section %s has the login module %s; must be %s",
			quoteShort(p.wantedSection), quoteShort(class), digestModule))
	}
}

// readOption reads key="value".
func (p *jaasParser) readOption(wanted bool) {
	at := p.token.line
	before := p.previousLine
	key := p.expect(wordToken, "an option, or ;")
	if p.token.kind == wordToken && strings.Contains(key, ".") { // the class of the next login module, and its flag
		p.failAt(before, noSemicolon)
	}
	p.expect('=', "= after the name of an option")
	value := p.expect(wordToken, "a value in double quotes")
	if p.err == nil && strings.Contains(value, "${") {
		p.failAt(at, "a value with ${: Java puts a property there, which is not done here; write the value itself")
	}
	if wanted && p.err == nil {
		p.moduleOptions[key] = value
	}
	if name, isUser := strings.CutPrefix(key, userPrefix); p.err == nil && wanted && isUser {
		p.addUser(name, value, at)
	}
}

func (p *jaasParser) addUser(name, password string, line int) {
	_, duplicate := p.users[name]
	switch {
	case !ValidUserName(name):
		p.failAt(line, fmt.Sprintf("the name after user_ must have 1 to %d bytes, with at most one @ and no / after it",
			MaxUserName))
		return
	case duplicate:
		p.failAt(line, fmt.Sprintf("duplicate user %s", quoteShort(name)))
		return
	case p.users == nil:
		p.users = map[string]string{}
	}
	p.users[name] = password
}

// expect returns the text of the next token, which must be of this kind, and reads the one after it. what
// describes the kind in an error.
func (p *jaasParser) expect(kind tokenKind, what string) string {
	if p.err == nil && p.token.kind != kind {
		p.failAt(p.token.line, p.token.String()+"; must be "+what)
	}
	if p.err != nil {
		return ""
	}
	text := p.token.text
	p.previousLine = p.line
	p.scanToken()
	return text
}

// String describes the token for an error without the text of a word, which may be a password.
func (t token) String() string {
	switch t.kind {
	case endOfFile:
		return "the end of the file"
	case wordToken:
		return "a word or value"
	}
	return fmt.Sprintf("%q", rune(t.kind))
}

func (p *jaasParser) fail(what string) { p.failAt(p.line, what) }

func (p *jaasParser) failAt(line int, what string) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s", line, what)
	}
	p.unread, p.token = "", token{kind: endOfFile, line: line}
}

func (p *jaasParser) scanToken() {
	p.skipSpace()
	p.token = token{kind: endOfFile, line: p.line}
	if p.unread == "" {
		return
	}
	switch c := p.unread[0]; {
	case c == '"':
		p.token.kind, p.token.text = wordToken, p.readQuoted()
	case isWordByte(c):
		end := strings.IndexFunc(p.unread, func(r rune) bool { return r < 0x80 && !isWordByte(byte(r)) })
		if end < 0 {
			end = len(p.unread)
		}
		p.token.kind, p.token.text, p.unread = wordToken, p.unread[:end], p.unread[end:]
	default:
		p.token.kind, p.unread = tokenKind(c), p.unread[1:]
	}
}

// isWordByte reports whether a word outside quotes may have c.
func isWordByte(c byte) bool {
	return c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte(".$_-*", c) >= 0
}

// skipSpace skips white space and comments. As in Java, a slash begins a comment up to the end of the line,
// also if no other slash follows.
func (p *jaasParser) skipSpace() {
	for p.unread != "" {
		switch {
		case p.unread[0] <= ' ':
			p.skipBytes(1)
		case strings.HasPrefix(p.unread, "/*"):
			end := strings.Index(p.unread[2:], "*/")
			if end < 0 {
				p.fail("a comment that begins with /* must end with */")
				return
			}
			p.skipBytes(end + 4)
		case p.unread[0] == '/':
			end := strings.IndexByte(p.unread, '\n')
			if end < 0 {
				end = len(p.unread)
			}
			p.skipBytes(end)
		default:
			return
		}
	}
}

// skipBytes skips n bytes and counts their lines.
func (p *jaasParser) skipBytes(n int) {
	p.line += strings.Count(p.unread[:n], "\n")
	p.unread = p.unread[n:]
}

// escapeLetters are pairs of a letter after a backslash and the character that it means.
const escapeLetters = "a\ab\bf\fn\nr\rt\tv\v"

// readQuoted reads a text in double quotes. A backslash stands before up to three octal digits, one of the
// letters in escapeLetters, or a character that counts as it is.
func (p *jaasParser) readQuoted() string {
	var b strings.Builder
	for i := 1; i < len(p.unread); i++ {
		c := p.unread[i]
		switch {
		case c == '"':
			p.unread = p.unread[i+1:]
			return b.String()
		case c == '\n' || c == '\r':
			p.fail("a text in double quotes must end on its line")
			return ""
		case c != '\\' || i+1 == len(p.unread):
			b.WriteByte(c)
			continue
		}
		i++
		if char, n := readOctal(p.unread[i:]); n > 0 {
			b.WriteRune(char)
			i += n - 1
			continue
		}
		c = p.unread[i]
		if at := strings.IndexByte(escapeLetters, c); at >= 0 && at%2 == 0 {
			c = escapeLetters[at+1]
		}
		b.WriteByte(c)
	}
	p.fail("a text in double quotes must end on its line")
	return ""
}

// readOctal returns the character of the octal digits at the beginning of text, at most \377, and their
// number.
func readOctal(text string) (char rune, n int) {
	for n < len(text) && n < 3 && '0' <= text[n] && text[n] <= '7' && (n < 2 || char <= 0o37) {
		char = char*8 + rune(text[n]-'0')
		n++
	}
	return char, n
}
