package p

import "" (
	"fmt"
)

import ""
