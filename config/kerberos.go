package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"rollcall/internal/secretfile"
	"rollcall/zk/kerberos"
	"rollcall/zk/sasl"
)

const (
	// krb5Key is the key with the path of krb5.conf. It is a property of Java, not of ZooKeeper.
	krb5Key = "java.security.krb5.conf"
	// krb5File is the path without the key. That file may be missing.
	krb5File = "/etc/krb5.conf"
)

// setKerberos lets clients log in by Kerberos with the keytab of a JAAS file. It reads the keytab as a member does.
func (d *rawConfig) setKerberos(login sasl.KerberosLogin) error {
	conf, err := d.readKrb5Conf()
	if err != nil {
		return fmt.Errorf("%s: %w", d.krb5Path(), err)
	}
	service, err := kerberos.ParsePrincipal(login.Principal, conf.DefaultRealm)
	switch {
	case err != nil:
		return err
	case conf.DefaultRealm == "" && d.loginKeys.requireRealm:
		return fmt.Errorf("requireKerberosConfig=true, and %s has no default_realm; write it there, in the section libdefaults", d.krb5Path())
	}
	k := &d.config.Login.Kerberos
	k.KeytabFile, k.Principal = login.Keytab, service.String()
	k.DefaultRealm, k.ClockSkew = cmp.Or(conf.DefaultRealm, service.Realm), conf.ClockSkew
	keytab, err := secretfile.ReadTrustedFile(k.KeytabFile, kerberos.MaxKeytab)
	if err != nil {
		return fmt.Errorf("keytab %s: %w", ShortText(k.KeytabFile), err)
	}
	if exposed := keytab.ExposedWarning(); exposed != "" {
		d.addWarning(d.whereSet(jaasKey), "keytab %s: %s", ShortText(k.KeytabFile), exposed)
	}
	if _, err := k.NewAcceptor(nil); err != nil {
		return err
	}
	d.config.Rules.SASL = true
	return nil
}

func (d *rawConfig) krb5Path() string { return cmp.Or(d.loginKeys.krb5File, krb5File) }

// readKrb5Conf reads krb5.conf, which may be missing unless its path is set.
func (d *rawConfig) readKrb5Conf() (kerberos.Conf, error) {
	f, err := secretfile.ReadTrustedFile(d.krb5Path(), kerberos.MaxConf)
	if d.loginKeys.krb5File == "" && errors.Is(err, fs.ErrNotExist) {
		return kerberos.Conf{}, nil
	}
	if err != nil {
		return kerberos.Conf{}, err
	}
	conf, err := kerberos.ParseConf(f.Text)
	if err == nil && conf.HasIncludes {
		d.addWarning(d.whereSet(krb5Key), "%s includes other files, which are not read: default_realm and clockskew must be in it", d.krb5Path())
	}
	return conf, err
}
