import { type TrainingRun, getDistributionStrategy, runBertPretrain } from "wgpu-bert";

const text = document.querySelector("textarea")!;
const train = document.querySelector("button")!;
const told = document.querySelector("output")!;

async function watch(run: TrainingRun) {
  for await (const event of run) {
    if (event.kind !== "progress") continue;
    told.value = `step ${event.step} of ${event.totalSteps}: loss ${event.loss.toFixed(3)}`;
  }
  const { model } = await run.finished;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await model.exportHuggingFace());
  link.download = "model.zip";
  link.textContent = "the model, for Hugging Face";
  train.replaceWith(link);
}

train.onclick = async () => {
  train.disabled = true;
  try {
    const strategy = await getDistributionStrategy();
    await watch(runBertPretrain(strategy, { text: text.value || undefined, steps: 300 }));
  } catch (error) {
    told.value = String(error);
  }
};
