import { VIEW_PARTS } from "../../view/view_part";
import { WhatIf } from "./what_if";

VIEW_PARTS.push((view) => new WhatIf(view));
