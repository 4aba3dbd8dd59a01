package config

import (
	"fmt"

	"rollcall/internal/secretfile"
	"rollcall/quorum/trust"
	"rollcall/zk/kerberos"
	"rollcall/zk/sasl"
)

// memberLogin holds the keys quorum.auth.*, by which ZooKeeper's members log in to each other.
type memberLogin struct {
	enabled, serverRequires, learnerRequires bool
	serverSection, learnerSection            string
	servicePrincipal                         string // of Kerberos
}

// setMemberLogin makes the users in the JAAS file the secret of the members, or has them prove themselves by Kerberos with the keytabs
// there, if the keys ask for it.
func (d *rawConfig) setMemberLogin() error {
	const enable, server, learner = "quorum.auth.enableSasl", "quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl"
	l := &d.memberLogin
	given := d.environ.memberUsers
	if given != nil && l.enabled {
		return fmt.Errorf("%s: %s=true names users in a JAAS file, and %s=yes has some, too; leave one of them out", d.whereSet(enable), enable, quorumAuthVariable)
	}
	if given != nil && d.config.Trust.SecretFile != "" {
		return fmt.Errorf("%s=yes, but ensembleSecretFile is set, too, in %s; leave one of them out", quorumAuthVariable, d.whereSet("ensembleSecretFile"))
	}
	if d.config.Trust.MemberLogin.Given = given; given != nil {
		return nil
	}
	switch {
	case l.serverRequires && !l.learnerRequires:
		return fmt.Errorf("%s: %s=true needs %s=true, as in ZooKeeper; set it, too", d.whereSet(server), server, learner)
	case l.learnerRequires && !l.enabled:
		return fmt.Errorf("%s: %s=true needs %s=true; set it, too", d.whereSet(learner), learner, enable)
	case !l.enabled:
		return nil
	case d.loginKeys.jaasFile == "":
		return fmt.Errorf("%s: %s=true needs a JAAS file with the sections %s and %s; set %s", d.whereSet(enable), enable,
			l.serverSection, l.learnerSection, jaasKey)
	}
	usesKerberos, err := d.setMemberKerberos()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %s=%s: %w", d.whereSet(jaasKey), jaasKey, ShortText(d.loginKeys.jaasFile), err)
	case !usesKerberos && d.config.Trust.SecretFile != "":
		return fmt.Errorf("%s: %s=true, but ensembleSecretFile is set, too, in %s; leave one of them out", d.whereSet(enable), enable,
			d.whereSet("ensembleSecretFile"))
	case !usesKerberos:
		d.config.Trust.MemberLogin = trust.MemberLogin{File: d.loginKeys.jaasFile, ServerSection: l.serverSection, LearnerSection: l.learnerSection}
	}
	if where := d.setIn[servicePrincipalKey]; where != "" && !usesKerberos {
		d.addWarning(where, "%s has no effect: section %s has users, and not Kerberos", servicePrincipalKey, ShortText(l.serverSection))
	}
	if !l.serverRequires {
		d.config.Trust.AcceptPlain = true
		d.addWarning(d.whereSet(enable), "without %s=true, plain connections between members are accepted and opened, too, also with %s=true; they prove nothing",
			server, learner)
	}
	return nil
}

const servicePrincipalKey = "quorum.auth.kerberos.servicePrincipal"

// setMemberKerberos reports whether the JAAS file has members prove themselves by Kerberos, and takes the principals and keytabs if so. It
// does not read the keytabs. A file that cannot be read is an error later, when it is read for users.
func (d *rawConfig) setMemberKerberos() (used bool, err error) {
	l := &d.memberLogin
	f, err := secretfile.ReadTrustedFile(d.loginKeys.jaasFile, sasl.MaxJAASBytes)
	if err != nil {
		return false, nil
	}
	server, errServer := sasl.ParseServerLogin(f.Text, l.serverSection)
	learner, errLearner := sasl.ParseClientKerberos(f.Text, l.learnerSection)
	switch {
	case errServer != nil && sasl.UsesKerberos(f.Text, l.serverSection):
		return false, errServer
	case errLearner != nil && sasl.UsesKerberos(f.Text, l.learnerSection):
		return false, errLearner
	case server.Kerberos == nil && learner == nil:
		return false, nil
	case errServer != nil:
		return false, errServer
	case errLearner != nil:
		return false, errLearner
	case server.Kerberos == nil || learner == nil:
		return false, fmt.Errorf("of the sections %s and %s one has Kerberos, and the other one users; both must have the same", ShortText(l.serverSection),
			ShortText(l.learnerSection))
	case learner.Keytab == "":
		return false, fmt.Errorf("section %s takes tickets from a cache, which ends when nobody renews it; must have useKeyTab=true and a keytab",
			ShortText(l.learnerSection))
	}
	d.warnReadable(jaasKey, f.ExposedWarning())
	conf, err := d.readKrb5Conf()
	if err != nil {
		return false, fmt.Errorf("%s: %w", d.krb5Path(), err)
	}
	k := trust.Kerberos{Krb5Conf: d.krb5Path(), ClockSkew: conf.ClockSkew}
	k.Dialed.Keytab, k.Dialing.Keytab = server.Kerberos.Keytab, learner.Keytab
	if k.Dialed.Principal, err = kerberos.ParsePrincipal(server.Kerberos.Principal, conf.DefaultRealm); err != nil {
		return false, fmt.Errorf("section %s: %w", ShortText(l.serverSection), err)
	}
	if k.Dialing.Principal, err = kerberos.ParsePrincipal(learner.Principal, conf.DefaultRealm); err != nil {
		return false, fmt.Errorf("section %s: %w", ShortText(l.learnerSection), err)
	}
	if k.DialedName, err = parseServicePrincipal(l.servicePrincipal, k.Dialed.Principal.Realm); err != nil {
		return false, fmt.Errorf("%s: %s=%s: %w", d.whereSet(servicePrincipalKey), servicePrincipalKey, ShortText(l.servicePrincipal), err)
	}
	if !k.IsPerMember() {
		d.addWarning(d.whereSet(servicePrincipalKey), "%s=%s is one principal of all members: a member that is dialed proves only that it is one of them; "+
			"give each a principal of its own, and set it to NAME/_HOST", servicePrincipalKey, ShortText(l.servicePrincipal))
	}
	d.config.Trust.Kerberos = k
	return true, nil
}

// parseServicePrincipal returns the name of members' principals without the realm, which must be that of this member.
func parseServicePrincipal(text, realm string) (string, error) {
	p, err := kerberos.ParsePrincipal(text, realm)
	if err == nil && p.Realm != realm {
		err = fmt.Errorf("the realm is %s; must be that of this member's principals, %s", ShortText(p.Realm), realm)
	}
	return p.Name, err
}
