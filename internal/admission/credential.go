package admission

// Credential is a kind of credentials.
type Credential uint8

const (
	AdminToken        Credential = iota // the token of administrators, over HTTP
	AdminPassword                       // the super user's password, over HTTP
	SuperPassword                       // the super user's password, in an auth packet
	SASLLogin                           // a login by SASL
	ClientCertificate                   // a client's certificate
	numCredentials
)

var credentialNames = [numCredentials]string{
	AdminToken: "token", AdminPassword: "password", SuperPassword: "super",
	SASLLogin: "sasl", ClientCertificate: "certificate",
}

// String returns the name in metrics and logs.
func (k Credential) String() string { return credentialNames[k] }
