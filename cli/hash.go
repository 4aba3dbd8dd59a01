package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"rollcall/zk/digest"
)

// maxPassword is in bytes. An auth packet may be longer.
const maxPassword = 4 << 10

func newHash(w IOStreams) *cobra.Command {
	var alg string
	var fingerprint bool
	cmd := &cobra.Command{
		Use: "hash [flags] USER", Short: "print the digest of a user's password, for ACLs and the super user",
		GroupID: ToolsGroup, Args: RangeArgs(1, 1, "one user"),
		Long: "Prints the identity of a user in the scheme digest: the user and a hash of the user with the password. It " +
			"is the id of an ACL, and with the user super the value of " +
			"DigestAuthenticationProvider.superDigest. The command asks for the password if its input is a terminal. " +
			"Otherwise the first line of its input is the password. " +
			"--alg must be what DigestAuthenticationProvider.digestAlg is on all members. --fingerprint prints what the " +
			"audit log shows of the identity.",
		Example: "  rollcall hash super > /etc/rollcall/super\n  rollcall hash --alg SHA-256 bob < password",
		RunE: PrefixErrors(func(_ *cobra.Command, args []string) error {
			a, err := digest.ParseAlgorithm(alg)
			if err != nil {
				return UsageError.Errorf("--alg %.100q: %w", alg, err)
			}
			if user := args[0]; user == "" || strings.Contains(user, ":") || !utf8.ValidString(user) {
				return UsageError.Errorf("%.100q is no user: must be a name in UTF-8 without a colon; the password is not an "+
					"argument, because others could see it", user)
			}
			password, err := w.readNewPassword()
			if err != nil {
				return err
			}
			line := a.IdentityOf(args[0] + ":" + password)
			if fingerprint {
				line = digest.Fingerprint(line)
			}
			_, err = fmt.Fprintln(w.Out, line)
			return err
		}),
	}
	cmd.Flags().StringVar(&alg, "alg", digest.Algorithm(0).String(), "hash `function`: "+digest.AlgorithmNames)
	cmd.Flags().BoolVar(&fingerprint, "fingerprint", false,
		"print the fingerprint of the identity in the audit log instead")
	return cmd
}

// readNewPassword reads a new password. On a terminal it prompts twice.
func (w IOStreams) readNewPassword() (string, error) {
	read := w.ReadPassword
	if read == nil {
		read = w.readPasswordLine
	}
	password, err := read("Password: ")
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if err := checkPassword(password); err != nil || w.ReadPassword == nil {
		return password, err
	}
	again, err := read("The same again: ")
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if again != password {
		return "", errors.New("the two passwords differ; nothing was printed")
	}
	return password, nil
}

func (w IOStreams) readPasswordLine(string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(w.In, maxPassword+2)) // with the end of its line
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), err
}

func checkPassword(password string) error {
	switch {
	case password == "":
		return errors.New("the password is empty; type one, or give it as the first line of the input")
	case len(password) > maxPassword:
		return fmt.Errorf("the password has over %d bytes", maxPassword)
	case !utf8.ValidString(password):
		return errors.New("the password is not UTF-8, so clients could not send it")
	}
	return nil
}
