package shop

type (
	// Item is one thing.
	Item struct {
		Name  string
		Price int // in cents
	}ÿ

	// Namer has a name.
	Namer interface {
		Label() string
	}
)

func f() {}
