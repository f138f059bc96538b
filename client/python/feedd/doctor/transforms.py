"""torchvision's transforms as steps of ``transform.FIELD``."""

import ast
from collections.abc import Callable
from typing import Any

from .plan import Plan
from .script import UNKNOWN, Either, Script, argument, said

_FILTERS = {"NEAREST": "nearest", "NEAREST_EXACT": "nearest", "BILINEAR": "bilinear", "BICUBIC": "bicubic"}
_NOTHING = ("Identity", "RGB", "ToPILImage", "ToPureTensor", "SanitizeBoundingBoxes")


class _Untranslatable(Exception):
    pass


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _numbers(value: Any, what: str, least: int = 1) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    if len(values) < least or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values):
        raise _Untranslatable(f"{what} is not a constant")
    return [_number(one) for one in values]


class Translator:
    """Turns one list of transforms into steps on images and steps on values."""

    def __init__(self, script: Script, plan: Plan) -> None:
        self.script, self.plan = script, plan
        self.moving: list[str] = []
        self.colours: list[str] = []
        self.values: list[str] = []
        self.sized = False
        self.mean: list[float] = []

    # ---- Arguments -------------------------------------------------------------------------------------------------

    def _given(self, call: ast.Call, name: str, place: int | None, default: Any) -> Any:
        node = argument(call, name, place)
        value = self.script.value(node, default)
        if value is UNKNOWN:
            raise _Untranslatable(f"{name}={ast.unparse(node) if node else ''} is not a constant")
        return value

    def _filter(self, call: ast.Call, place: int | None) -> str:
        node = argument(call, "interpolation", place)
        if node is None:
            return ""
        name = ast.unparse(node).rpartition(".")[2]
        if name not in _FILTERS:
            raise _Untranslatable(f"interpolation {name} is not one of nearest, bilinear and bicubic")
        return "" if _FILTERS[name] == "bilinear" else f" {_FILTERS[name]}"

    def _sides(self, call: ast.Call) -> list[str]:
        sides = _numbers(self._given(call, "size", 0, None), "size")
        return sides[:1] if len(sides) == 2 and sides[0] == sides[1] else sides

    def _only(self, call: ast.Call, *names: str) -> None:
        for keyword in call.keywords:
            if keyword.arg not in names:
                raise _Untranslatable(f"its argument {keyword.arg}= has no counterpart")

    def _fill(self, call: ast.Call, place: int | None) -> str:
        fill = self._given(call, "fill", place, 0)
        return "" if fill == 0 else f" fill {' '.join(_numbers(fill, 'fill'))}"

    # ---- Each transform --------------------------------------------------------------------------------------------

    def resize(self, call: ast.Call) -> None:
        self._only(call, "size", "interpolation", "antialias")
        size = _numbers(self._given(call, "size", 0, None), "size")
        self.sized = self.sized or len(size) == 2
        self.moving.append(f"resize {' '.join(size)}{self._filter(call, 1)}")

    def center_crop(self, call: ast.Call) -> None:
        self.sized = True
        self.moving.append(f"center_crop {' '.join(self._sides(call))}")

    def random_crop(self, call: ast.Call) -> None:
        self._only(call, "size", "padding", "fill")
        padding = self._given(call, "padding", 1, None)
        around = "" if not padding else f" padding {' '.join(_numbers(padding, 'padding'))}"
        if isinstance(padding, tuple) and len(set(padding)) > 1:
            raise _Untranslatable("its padding differs from side to side: use pad L T R B before random_crop")
        self.sized = True
        self.moving.append(f"random_crop {' '.join(self._sides(call))}{around}{self._fill(call, 3)}")

    def random_resized_crop(self, call: ast.Call) -> None:
        self._only(call, "size", "scale", "ratio", "interpolation", "antialias")
        step = f"random_resized_crop {' '.join(self._sides(call))}"
        area, ratio = self._given(call, "scale", 1, (0.08, 1)), argument(call, "ratio", 2)
        if tuple(area) != (0.08, 1):
            step += f" area {' '.join(_numbers(area, 'scale', 2))}"
        if ratio is not None and ast.unparse(ratio).replace(" ", "") not in ("(3/4,4/3)", "(3.0/4.0,4.0/3.0)"):
            step += f" ratio {' '.join(_numbers(self._given(call, 'ratio', 2, None), 'ratio', 2))}"
        self.sized = True
        self.moving.append(step + self._filter(call, 3))

    def _chance(self, name: str, call: ast.Call, default: float) -> str:
        return f"{name} {_numbers(self._given(call, 'p', 0, default), 'p')[0]}"

    def flip(self, call: ast.Call) -> None:
        self.moving.append(self._chance("flip", call, 0.5))

    def vertical_flip(self, call: ast.Call) -> None:
        self.moving.append(self._chance("vertical_flip", call, 0.5))

    def pad(self, call: ast.Call) -> None:
        self._only(call, "padding", "fill")
        sides = _numbers(self._given(call, "padding", 0, None), "padding")
        self.moving.append(f"pad {' '.join(sides * 2 if len(sides) == 2 else sides)}{self._fill(call, 1)}")

    def color_jitter(self, call: ast.Call) -> None:
        for place, name in enumerate(("brightness", "contrast", "saturation", "hue")):
            amount = self._given(call, name, place, 0)
            if amount != 0:
                self.colours.append(f"{name} {' '.join(_numbers(amount, name))}")
        self.plan.note(call.lineno, "ColorJitter runs its parts in random order; the steps always run in this order")

    def grayscale(self, call: ast.Call) -> None:
        if self._given(call, "num_output_channels", 0, 1) == 3:
            self.colours.append("grayscale 1")
        else:
            self.moving.insert(0, "decode gray")
            self.plan.note(call.lineno, "decode gray takes the brightness that the decoder gives, which may differ by a level")

    def random_grayscale(self, call: ast.Call) -> None:
        self.colours.append(self._chance("grayscale", call, 0.1))

    def erase(self, call: ast.Call) -> None:
        self._only(call, "p", "scale", "ratio", "value", "inplace")
        step = self._chance("erase", call, 0.5)
        for name, key, place, usual in (("area", "scale", 1, (0.02, 0.33)), ("ratio", "ratio", 2, (0.3, 3.3))):
            pair = self._given(call, key, place, usual)
            if tuple(pair) != usual:
                step += f" {name} {' '.join(_numbers(pair, key, 2))}"
        value = self._given(call, "value", 3, 0)
        if value != 0:
            raise _Untranslatable("it fills with something else than 0; erase takes one level from 0 to 255 for each channel")
        if self.mean:
            # A 0 after Normalize is the mean before it.
            step += f" fill {' '.join(str(round(255 * one)) for one in self.mean)}"
        self.colours.append(step)

    def rand_augment(self, call: ast.Call) -> None:
        self._only(call, "num_ops", "magnitude", "fill")
        both = [str(self._given(call, "num_ops", 0, 2)), str(self._given(call, "magnitude", 1, 9))]
        self.colours.append("rand_augment" + ("" if both == ["2", "9"] else f" {' '.join(both)}") + self._fill(call, None))

    def trivial_augment(self, call: ast.Call) -> None:
        self._only(call, "fill")
        self.colours.append("trivial_augment_wide" + self._fill(call, None))

    def to_tensor(self, _call: ast.Call) -> None:
        self.values += ["scale 1/255", "layout chw"]

    def to_image(self, _call: ast.Call) -> None:
        self.values.append("layout chw")

    def to_dtype(self, call: ast.Call) -> None:
        wanted = self.script.name_of(argument(call, "dtype", 0) or ast.Constant(0)).rpartition(".")[2]
        casts = {"float32": "", "float": "", "float16": "cast f16", "half": "cast f16", "bfloat16": "cast bf16", "uint8": None}
        if wanted not in casts:
            raise _Untranslatable("its dtype is not float32, float16, bfloat16 or uint8")
        scaled = self.script.called(call).endswith("ConvertImageDtype") or self._given(call, "scale", 1, False)
        if casts[wanted] is not None:
            self.values += ["scale 1/255"] * bool(scaled) + [casts[wanted] or ("" if scaled else "cast f32")]

    def normalize(self, call: ast.Call) -> None:
        mean, std = (self._given(call, name, place, None) for place, name in enumerate(("mean", "std")))
        self.values += [f"mean {' '.join(_numbers(mean, 'mean'))}", f"std {' '.join(_numbers(std, 'std'))}"]
        self.mean = list(mean) if isinstance(mean, tuple) else [mean]

    # ---- The list --------------------------------------------------------------------------------------------------

    def translate(self, node: ast.expr) -> None:
        given = node
        node, _ = self.script.behind(node)
        name = self.script.called(node).rpartition(".")[2]
        if isinstance(node, Either):
            self._cannot_tell(given, node)
            return
        if isinstance(node, ast.List):
            members = node.elts
        elif isinstance(node, ast.Call) and name in ("Compose", "Sequential"):
            inner = node.args[0] if name == "Compose" and node.args else None
            behind = self.script.behind(inner)[0] if inner is not None else None
            if isinstance(behind, Either) and inner is not None:
                self._cannot_tell(inner, behind)
                return
            members = behind.elts if isinstance(behind, (ast.List, ast.Tuple)) else node.args
        else:
            self._one(node, name)
            return
        for member in members:
            self.translate(member)

    def _preset(self, node: ast.expr) -> ast.expr | None:
        """The transforms that an instance of a class of the script applies, if it does nothing else."""
        kind = self.script.definition(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(kind, ast.ClassDef) or not isinstance(node, ast.Call):
            return None
        methods = {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef)}
        init, called = methods.get("__init__"), methods.get("__call__", methods.get("forward"))
        body = [one for one in called.body if not isinstance(one, ast.Expr)] if called is not None else []
        if init is None or len(body) != 1 or not isinstance(body[0], ast.Return) or not isinstance(body[0].value, ast.Call):
            return None
        return self.script.attribute_of(init, node, body[0].value.func)

    def _cannot_tell(self, given: ast.expr, node: Either) -> None:
        cases = [f"{' '.join(ast.unparse(one).split())[:90]} ({said(when)})" for one, when in self.script.each(node.named)]
        told = f": {'; '.join(cases)}" if len(cases) > 1 else ""
        self.plan.refuse(given.lineno, f"which transforms apply depends on the run; add the steps of those that do{told}")

    def _one(self, node: ast.expr, name: str) -> None:
        ours = self.script.called(node).startswith("torchvision.transforms.")
        if name in _NOTHING and ours:
            return
        preset = self._preset(node)
        if preset is not None:
            self.translate(preset)
            return
        known = _TRANSFORMS.get(name) if ours else None
        if known is None or not isinstance(node, ast.Call):
            self.plan.refuse(node.lineno, f"the transform {ast.unparse(node)[:70]} has no counterpart; apply it to whole"
                                          " batches in the loop")
            return
        try:
            known(self, node)
        except _Untranslatable as error:
            self.plan.refuse(node.lineno, f"the transform {ast.unparse(node)[:70]}: {error}")

    def steps(self) -> str:
        values = [step for step in self.values if step and not step.startswith(("cast", "layout"))]
        ends = [step for step in dict.fromkeys(self.values) if step.startswith(("layout", "cast"))]
        return ", ".join([*self.moving, *self.colours, *values, *sorted(ends, reverse=True)])


_TRANSFORMS: dict[str, Callable[[Translator, ast.Call], None]] = {
    "Resize": Translator.resize, "CenterCrop": Translator.center_crop, "RandomCrop": Translator.random_crop,
    "RandomResizedCrop": Translator.random_resized_crop, "RandomHorizontalFlip": Translator.flip,
    "RandomVerticalFlip": Translator.vertical_flip, "Pad": Translator.pad, "ColorJitter": Translator.color_jitter,
    "Grayscale": Translator.grayscale, "RandomGrayscale": Translator.random_grayscale, "RandomErasing": Translator.erase,
    "RandAugment": Translator.rand_augment, "TrivialAugmentWide": Translator.trivial_augment, "ToTensor": Translator.to_tensor,
    "ToImage": Translator.to_image, "PILToTensor": Translator.to_image, "ToDtype": Translator.to_dtype,
    "ConvertImageDtype": Translator.to_dtype, "Normalize": Translator.normalize,
}  # fmt: skip


def image_steps(script: Script, plan: Plan, node: ast.expr | None, line: int) -> str:
    """The steps of an image field, for which ``plan.image`` says how it is stored."""
    translator = Translator(script, plan)
    if node is not None and script.value(node, UNKNOWN) is not None:
        translator.translate(node)
    if plan.image == "encoded" and not translator.sized and not plan.cannot:
        plan.refuse(line, "images of a batch must have one size: add a step that fixes both sides, such as center_crop 224")
    if plan.image == "planes" and (translator.moving or translator.colours):
        plan.refuse(line, "steps on images need them encoded, or stored as u8[H,W,3]; here they are stored as [3,H,W]:"
                          " write them to files once, and use format = folder")
        return ", ".join(step for step in translator.values if not step.startswith("layout"))
    if plan.image == "planes":
        return ", ".join(step for step in translator.values if not step.startswith("layout"))
    return translator.steps()
