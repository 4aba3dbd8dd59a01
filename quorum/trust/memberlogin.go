package trust

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall/zk/sasl"
)

// jaasFileKey names the JAAS file in the configuration.
const jaasFileKey = "java.security.auth.login.config"

// MemberLogin names what ZooKeeper's members log in to each other with: a section of a JAAS file with their users, and one with the user of
// this member. The first one is the secret that members share, so it must be the same on all of them. No password is ever sent.
type MemberLogin struct {
	File           string // JAAS file; "": there is none
	ServerSection  string
	LearnerSection string
	Given          *MemberUsers // in place of File; nil: there are none
}

// MemberUsers are the users of all members with their passwords, and the user of this member. They must never be printed.
type MemberUsers struct {
	Passwords map[string]string // of all members' users
	Name      string            // this member's user
	Password  string
	From      string // the variable with the users, for errors
}

// String hides the passwords in texts and logs.
func (*MemberUsers) String() string { return "(users)" }

// GoString hides them in the format %#v.
func (*MemberUsers) GoString() string { return "(users)" }

// fromFile returns the users of a JAAS file.
func (l MemberLogin) fromFile(text []byte) (*MemberUsers, error) {
	users, err := sasl.ParseJAAS(text, l.ServerSection)
	if err != nil {
		return nil, err
	}
	name, password, err := sasl.ParseClientLogin(text, l.LearnerSection)
	if err != nil {
		return nil, err
	}
	return &MemberUsers{Passwords: users, Name: name, Password: password}, nil
}

// parseSecrets returns the secret of a JAAS file. It is an error if this member's user is none of those that the others know.
func (l MemberLogin) parseSecrets(text []byte) ([]secret, error) {
	users, err := l.fromFile(text)
	switch {
	case err != nil:
		return nil, err
	case !users.knowsMember():
		return nil, fmt.Errorf("section %s has no user %q with the password that section %s gives; make the two agree", l.ServerSection, users.Name, l.LearnerSection)
	}
	return users.secrets(), nil
}

// weaknessOf returns a warning if a password is so short that it can be guessed from one proof, or "".
func (l MemberLogin) weaknessOf(text []byte) string {
	if users, err := l.fromFile(text); err == nil {
		return users.weakness("section " + l.ServerSection)
	}
	return ""
}

// knowsMember reports whether this member's user is one of those that all members know.
func (u *MemberUsers) knowsMember() bool {
	known, ok := u.Passwords[u.Name]
	return ok && known == u.Password
}

// Check returns an error if the users make no secret. It shows no password.
func (u *MemberUsers) Check() error {
	if u.knowsMember() {
		return nil
	}
	return fmt.Errorf("%s has no user %q with the password that is given for this member; make the two agree", u.From, u.Name)
}

func (u *MemberUsers) secrets() []secret {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(u.Passwords)) {
		fmt.Fprintf(&all, "%q %q\n", name, u.Passwords[name])
	}
	return []secret{secret(all.String())}
}

func (u *MemberUsers) weakness(where string) string {
	longest := 0
	for _, password := range u.Passwords {
		longest = max(longest, len(password))
	}
	if longest >= minSecretLength {
		return ""
	}
	return fmt.Sprintf("every password of %s has less than %d characters: who takes over the address of a member could guess it; "+
		"make a longer one", where, minSecretLength)
}
