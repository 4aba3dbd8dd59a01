package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/secretfile"
	"rollcall/zk/sasl"
)

// jaasKey is the key with the path of the JAAS file. It is a property of Java, not of ZooKeeper.
const jaasKey = "java.security.auth.login.config"

// allAuthSchemes are the schemes of clients' identities.
var allAuthSchemes = []string{"digest", "ip", "sasl", "x509"}

func authSchemes(field func(*rawConfig) *[]string) kind {
	list := commaList(field)
	return kind{
		allowed: strings.Join(allAuthSchemes, ", ") + ", with commas between them",
		parse: func(d *rawConfig, s setting) error {
			if err := list.parse(d, s); err != nil {
				return err
			}
			for _, scheme := range *field(d) {
				if !slices.Contains(allAuthSchemes, scheme) {
					return errAllowed
				}
			}
			return nil
		},
	}
}

// superUser takes one more user of SASL who becomes the super user.
func superUser() kind {
	return kind{
		allowed: "a name",
		parse: func(d *rawConfig, s setting) error {
			if s.value == "" {
				return errAllowed
			}
			d.config.Login.SuperUsers = append(d.config.Login.SuperUsers, s.value)
			return nil
		},
	}
}

// finishLogin reads the users of SASL and sets the schemes that clients need. As in ZooKeeper,
// sessionRequireClientSASLAuth wins over enforce.auth.enabled.
func (d *rawConfig) finishLogin() error {
	if err := d.readUsers(); err != nil {
		return fmt.Errorf("%s: %s=%s: %w", d.whereSet(jaasKey), jaasKey, ShortText(d.loginKeys.jaasFile), err)
	}
	from := "enforce.auth.schemes"
	switch {
	case d.loginKeys.requireSASL:
		from, d.config.Login.Schemes = "sessionRequireClientSASLAuth", []string{"sasl"}
	case d.loginKeys.enforceAuth && len(d.loginKeys.acceptedSchemes) == 0:
		return fmt.Errorf("%s: enforce.auth.enabled=true needs enforce.auth.schemes: one or more of %s",
			d.whereSet("enforce.auth.enabled"), strings.Join(allAuthSchemes, ", "))
	case d.loginKeys.enforceAuth:
		d.config.Login.Schemes = d.loginKeys.acceptedSchemes
	case len(d.loginKeys.acceptedSchemes) > 0:
		d.addWarning(d.whereSet(from), "enforce.auth.schemes has no effect without enforce.auth.enabled=true")
	}
	if d.config.Login.Users == nil && slices.Equal(d.config.Login.Schemes, []string{"sasl"}) {
		return fmt.Errorf("%s: %s asks for SASL, and no client can log in by it; set %s to a JAAS file with users, too",
			d.whereSet(from), from, jaasKey)
	}
	return nil
}

// readUsers reads the users in the JAAS file, if there is one.
func (d *rawConfig) readUsers() error {
	if d.loginKeys.jaasFile == "" {
		if d.environ.users != nil {
			d.config.Login.Users, d.config.Rules.SASL = sasl.NewUsers(d.environ.users), true
		}
		return nil
	}
	f, err := secretfile.ReadTrustedFile(d.loginKeys.jaasFile, sasl.MaxJAASBytes)
	if err != nil {
		return err
	}
	users, err := sasl.ParseJAAS(f.Text, d.loginKeys.jaasSection)
	if errors.Is(err, sasl.ErrNoSection) && d.memberLogin.enabled {
		return nil // the file is for members alone
	}
	if err != nil {
		return err
	}
	d.warnReadable(jaasKey, f.ExposedWarning())
	for _, super := range d.config.Login.SuperUsers {
		if _, ok := users[super]; !ok {
			d.addWarning(d.whereSet("superUser"), "superUser=%s is no user of section %s: nobody becomes the super user by that name",
				ShortText(super), ShortText(d.loginKeys.jaasSection))
		}
	}
	d.config.Login.Users, d.config.Rules.SASL = sasl.NewUsers(users), true
	return nil
}

func riskOfFailedClients(d *rawConfig) string {
	if !d.config.Login.KeepFailed {
		return ""
	}
	return "a client whose login fails is served without an identity, and does not notice"
}

func riskOfSchemes(d *rawConfig) string {
	if !slices.Contains(d.loginKeys.acceptedSchemes, "ip") {
		return ""
	}
	return "every client has an identity of the scheme ip, so none is rejected"
}
