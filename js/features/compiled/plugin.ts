import { VIEW_PARTS } from "../../view/view_part";
import { Opening } from "./opening";

VIEW_PARTS.push(({ channel }) => new Opening(channel));
