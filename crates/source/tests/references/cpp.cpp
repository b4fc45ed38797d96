#include <vector>
using namespace std;
using shop::Cart;
void run(Cart& cart) {
    auto item = std::make_unique<Item>(shop::detail::next(1));
    cart.items()->push(new shop::Item(convert<int>(2)));
    ::exit(0);
}
void more(Cart& cart) {
    cart.template find<Item>(static_cast<int>(size(1)));
}
