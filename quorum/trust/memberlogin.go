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
	File           string // JAAS file; "": there is no such login
	ServerSection  string
	LearnerSection string
}

// parseSecrets returns the secret of a JAAS file. It is an error if this member's user is none of those that the others know.
func (l MemberLogin) parseSecrets(text []byte) ([]secret, error) {
	users, err := sasl.ParseJAAS(text, l.ServerSection)
	if err != nil {
		return nil, err
	}
	name, password, err := sasl.ParseClientLogin(text, l.LearnerSection)
	if err != nil {
		return nil, err
	}
	if known, ok := users[name]; !ok || known != password {
		return nil, fmt.Errorf("section %s has no user %q with the password that section %s gives; make the two agree", l.ServerSection, name, l.LearnerSection)
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&all, "%q %q\n", name, users[name])
	}
	return []secret{secret(all.String())}, nil
}

// weaknessOf returns a warning if a password is so short that it can be guessed from one proof, or "".
func (l MemberLogin) weaknessOf(text []byte) string {
	users, err := sasl.ParseJAAS(text, l.ServerSection)
	if err != nil {
		return ""
	}
	longest := 0
	for _, password := range users {
		longest = max(longest, len(password))
	}
	if longest >= minSecretLength {
		return ""
	}
	return fmt.Sprintf("every password of section %s has less than %d characters: who takes over the address of a member could guess it; "+
		"make a longer one", l.ServerSection, minSecretLength)
}
