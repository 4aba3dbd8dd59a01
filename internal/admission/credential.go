package admission

// Credential is a kind of credentials.
type Credential uint8

// These are the kinds.
const (
	Token       Credential = iota // the token of administrators, over HTTP
	Password                      // the super user's password, over HTTP
	Super                         // the super user's password, in an auth packet
	SASL                          // a login by SASL
	Certificate                   // a client's certificate
	kinds
)

var kindNames = [kinds]string{Token: "token", Password: "password", Super: "super", SASL: "sasl", Certificate: "certificate"}

// String returns the name of the kind in metrics and in the log.
func (k Credential) String() string { return kindNames[k] }
