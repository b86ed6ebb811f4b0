// The page: each panel for itself, then what it takes to begin.
import { absentPanel } from "./absent-panel.js";
import { askPanel } from "./ask-panel.js";
import { devicePanel, look } from "./device-panel.js";
import { keepPanel } from "./keep-panel.js";
import { learningPanel } from "./learning-panel.js";
import { modelPanel } from "./model-panel.js";
import { watchPlan } from "./plan.js";
import { textPanel } from "./text-panel.js";
import { offerToGoOn, watchVisibility } from "./training.js";

textPanel();
modelPanel();
devicePanel();
absentPanel();
learningPanel();
askPanel();
keepPanel();
watchPlan();
watchVisibility();
void look();
// Where the browser keeps nothing, there is nothing to list.
offerToGoOn().catch(() => {});
