package flags

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// keepHostBare takes the user name and password out of the server's URL, where they are in it,
// to where they are sent from: the URL is told wherever the server is named.
func keepHostBare(config *rest.Config) error {
	if !strings.Contains(config.Host, "@") {
		return nil
	}
	server, err := url.Parse(config.Host)
	if err != nil || server.User == nil {
		return errors.New("kubeconfig: the server is no URL such as https://api.example.com:6443; what stands before the @ belongs into username and password of the user")
	}
	if config.Username == "" && config.BearerToken == "" && config.BearerTokenFile == "" {
		config.Username = server.User.Username()
		config.Password, _ = server.User.Password()
	}
	server.User = nil
	config.Host = server.String()
	return nil
}

// withoutProxy is an error of clientcmd without the proxy's URL, which may have a password
// in it.
func withoutProxy(err error) error {
	if clientcmd.IsConfigurationInvalid(err) && strings.Contains(err.Error(), "proxy-url") {
		return errors.New("its proxy-url is no URL of a proxy: it begins with http://, https:// or socks5://, and what is not a letter or digit in its password is percent-encoded")
	}
	return err
}

// hasUserinfo reports whether a text is a URL with a user name, and maybe a password.
func hasUserinfo(text string) bool { return userinfo.MatchString(text) }

var userinfo = regexp.MustCompile(`^[a-z0-9+.-]+://.*@`)

// ExplainFlagError says of an error in the flags of a command where the help is. It leaves out what was given to a flag
// that does not exist.
func ExplainFlagError(c *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		err = withoutValue(err, unknown.GetSpecifiedShortnames())
	}
	return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
}

// withoutValue is the error about a flag of one dash without what follows its "=": it may be
// that of --token.
func withoutValue(err error, given string) error {
	if given == "" {
		return err
	}
	name, _, _ := strings.Cut(given, "=")
	return fmt.Errorf("unknown shorthand flag: %q in -%s", name[:1], name)
}
