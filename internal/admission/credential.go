package admission

// Credential is a kind of credentials.
type Credential uint8

// These are the kinds.
const (
	AdminToken        Credential = iota // the token of administrators, over HTTP
	AdminPassword                       // the super user's password, over HTTP
	SuperPassword                       // the super user's password, in an auth packet
	SASLLogin                           // a login by SASL
	ClientCertificate                   // a client's certificate
	numCredentials
)

var credentialNames = [numCredentials]string{AdminToken: "token", AdminPassword: "password", SuperPassword: "super", SASLLogin: "sasl", ClientCertificate: "certificate"}

// String returns the name of the kind in metrics and in the log.
func (k Credential) String() string { return credentialNames[k] }
