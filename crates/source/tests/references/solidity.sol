import "./IERC20.sol";
import "./Math.sol" as Math;
import {SafeMath as Safe, Roles} from "./Safe.sol";
import * as Lib from "./Lib.sol";

contract Shop is Base(1) {
    constructor() Other(2) {}

    function pay(uint256 amount) external onlyOwner limited(10) {
        require(amount > 0, "nothing");
        uint256 sum = Math.add(amount, total());
        token.transfer(msg.sender, sum);
        target.call{value: 1}("");
        emit Paid(msg.sender, sum);
        Item memory item = Item({price: 1});
        new Cart(sum);
        if (sum > 9) revert Full(sum);
        super.pay(amount);
    }
}
