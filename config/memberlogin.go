package config

import (
	"fmt"

	"rollcall/quorum/trust"
)

// memberLogin holds the keys quorum.auth.*, by which ZooKeeper's members log in to each other.
type memberLogin struct {
	enabled, serverRequires, learnerRequires bool
	serverSection, learnerSection            string
}

// setMemberLogin makes the users in the JAAS file the secret of the members, if the keys ask for it.
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
	case d.config.Trust.SecretFile != "":
		return fmt.Errorf("%s: %s=true, but ensembleSecretFile is set, too, in %s; leave one of them out", d.whereSet(enable), enable,
			d.whereSet("ensembleSecretFile"))
	}
	d.config.Trust.MemberLogin = trust.MemberLogin{File: d.loginKeys.jaasFile, ServerSection: l.serverSection, LearnerSection: l.learnerSection}
	if !l.serverRequires {
		d.config.Trust.AcceptPlain = true
		d.addWarning(d.whereSet(enable), "without %s=true, plain connections between members are accepted and opened, too, also with %s=true; they prove nothing",
			server, learner)
	}
	return nil
}
