<?php
enum Suit: string
{
    public function label(): string
    {
        return ucfirst($this->value);
  //  }
}

// Doubles.
$double = fn($x) => $x * 2;

return new class extends Base {
    public function up(): void
    {
        parent::up();
    }
};
