package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/secretfile"
	"rollcall/zk/kerberos"
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

// kerberosRules takes the rules of names.
func kerberosRules() kind {
	return kind{
		allowed: "DEFAULT, and rules that begin with RULE:, with spaces between them",
		parse: func(d *rawConfig, s setting) error {
			if strings.TrimSpace(s.value) == "" {
				return errAllowed
			}
			if _, err := kerberos.ParseRules(s.value); err != nil {
				return err
			}
			return storeValue(d, func(d *rawConfig) *string { return &d.config.Login.Kerberos.Rules }, s.value)
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

// anySASLUser takes the user of SASL whose entries in ACLs count for all users of SASL.
func anySASLUser() kind {
	return kind{
		allowed: fmt.Sprintf("a name of 1 to %d bytes that an ACL can name in the scheme sasl", sasl.MaxUserName),
		parse: func(d *rawConfig, s setting) error {
			if !sasl.ValidUserName(s.value) {
				return errAllowed
			}
			return storeValue(d, func(d *rawConfig) *string { return &d.config.Rules.AnySASLUser }, s.value)
		},
	}
}

func riskOfAnySASLUser(d *rawConfig) string {
	if d.config.Rules.AnySASLUser == "" {
		return ""
	}
	return "every user of SASL may do what ACLs let " + ShortText(d.config.Rules.AnySASLUser) + " do"
}

// finishLogin reads the users of SASL and sets the schemes that clients need. As in ZooKeeper,
// sessionRequireClientSASLAuth wins over enforce.auth.enabled.
func (d *rawConfig) finishLogin() error {
	if err := d.readUsers(); err != nil {
		return fmt.Errorf("%s: %s=%s: %w", d.whereSet(jaasKey), jaasKey, ShortText(d.loginKeys.jaasFile), err)
	}
	if d.config.Rules.AnySASLUser != "" && !d.config.Rules.SASL {
		d.addWarning(d.whereSet("letAnySaslUserDoX"), "letAnySaslUserDoX has no effect while this member leads, because no client can log in by SASL: "+
			"set %s to a JAAS file with users or a keytab, too", jaasKey)
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
	if d.config.Login.Users == nil && d.config.Login.Kerberos.KeytabFile == "" && slices.Equal(d.config.Login.Schemes, []string{"sasl"}) {
		return fmt.Errorf("%s: %s asks for SASL, and no client can log in by it; set %s to a JAAS file whose section %s has users or a keytab, too",
			d.whereSet(from), from, jaasKey, ShortText(d.loginKeys.jaasSection))
	}
	return nil
}

// readUsers takes the users of SASL from the JAAS file, or from the variables. The file may have Kerberos in their place.
func (d *rawConfig) readUsers() error {
	found, err := d.loginOfFile()
	users := found.Users
	switch {
	case err != nil:
		return err
	case found.Kerberos != nil && d.environ.users != nil:
		return fmt.Errorf("section %s of the file has Kerberos, and %s has users; leave one of them out", ShortText(d.loginKeys.jaasSection), usersVariable)
	case found.Kerberos != nil:
		return d.setKerberos(*found.Kerberos)
	case users != nil && d.environ.users != nil:
		return fmt.Errorf("section %s of the file has users, and %s has some, too; leave one of them out", ShortText(d.loginKeys.jaasSection), usersVariable)
	case users == nil:
		users = d.environ.users
	}
	if users == nil {
		return nil
	}
	for _, super := range d.config.Login.SuperUsers {
		if _, ok := users[super]; !ok {
			d.addWarning(d.whereSet("superUser"), "superUser=%s is none of the users of SASL: nobody becomes the super user by that name", ShortText(super))
		}
	}
	d.config.Login.Users, d.config.Rules.SASL = sasl.NewUsers(users), true
	return nil
}

// loginOfFile returns how clients log in by the JAAS file. That is nothing if there is no file, or if it is for others: as in ZooKeeper,
// it may lack the section Server.
func (d *rawConfig) loginOfFile() (sasl.ServerLogin, error) {
	if d.loginKeys.jaasFile == "" {
		return sasl.ServerLogin{}, nil
	}
	f, err := secretfile.ReadTrustedFile(d.loginKeys.jaasFile, sasl.MaxJAASBytes)
	if err != nil {
		return sasl.ServerLogin{}, err
	}
	d.warnReadable(jaasKey, f.ExposedWarning())
	login, err := sasl.ParseServerLogin(f.Text, d.loginKeys.jaasSection)
	if !errors.Is(err, sasl.ErrNoSection) || d.setIn["sasl.serverconfig"] != "" {
		return login, err
	}
	if !d.memberLogin.enabled && d.environ.users == nil {
		d.addWarning(d.whereSet(jaasKey), "%s=%s has no section %s: no client can log in by SASL; add the section, or leave the key out",
			jaasKey, ShortText(d.loginKeys.jaasFile), d.loginKeys.jaasSection)
	}
	return sasl.ServerLogin{}, nil
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
